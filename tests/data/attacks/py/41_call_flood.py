for i in range(10 ** 9):
    calculator.add(a=i, b=1)
