"""The same evaluation where the work is shared out: users are evaluated in parts, and what the
parts gathered adds up.
"""
