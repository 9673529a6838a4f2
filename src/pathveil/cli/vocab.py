"""``pathveil vocab …``: which words a model may know."""

import typer

from pathveil.cli import agree

app = typer.Typer(help="Choose the words a model may know.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(agree.app, name="agree")
