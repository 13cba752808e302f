from wicket.scripts.api import Api
def python(api: Api, source: str) -> str: return ""
def interfaces(api: Api, source: str) -> dict[str, str]: return {}
