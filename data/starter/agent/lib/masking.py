"""What must not reach a model, and how it is masked. Shared by slots: `from lib.masking import mask`."""

import re

PATTERNS = {
    "key": re.compile(r"\b(?:sk|pk|ghp|gho|xox[abp]|AKIA)[-_A-Za-z0-9]{12,}\b"),
    "bearer": re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{12,}=*"),
    "password": re.compile(r"(?i)\b(?:password|passwd|secret|token)\s*[:=]\s*\S+"),
    "mail": re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
}


def mask(text):
    """The text with everything that fits a pattern as `[key masked]`, and how much that was."""
    count = 0
    for name, pattern in PATTERNS.items():
        text, found = pattern.subn(f"[{name} masked]", text)
        count += found
    return text, count
