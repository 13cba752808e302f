r = calculator.add.__globals__
r
