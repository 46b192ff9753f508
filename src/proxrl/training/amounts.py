"""Human-readable bytes and seconds."""


def gigabytes(number: float) -> str:
    if number >= 1e12:
        return f"{number / 1e12:.1f} TB"
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:,.0f} days" if days < 730 else f"{days / 365.25:,.0f} years"
