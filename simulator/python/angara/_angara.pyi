from typing import Any, Callable, Dict, Optional

__version__: str

def simulate(
    json: str, preset: Optional[str], count_links: bool, progress: Optional[Callable[[str, int, int], object]]
) -> Dict[str, Any]: ...
def run_sweep(
    json: str, shown: Dict[str, str], progress: Optional[Callable[[str, int, int], object]]
) -> Dict[str, Any]: ...
def catalog() -> str: ...
