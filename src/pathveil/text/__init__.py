"""A report's text: what it says of people hidden, and its tokens."""
