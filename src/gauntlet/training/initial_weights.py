"""The weights a training starts from."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.sources import shipped, trained


def load_weights(network: nn.Module, source: str, part: str | None = None) -> None:
    """Fills a network, or a part of it.

    Args:
        network: to be filled.
        source: a safetensors file, the folder or the name of a trained model, or the name of a shipped model.
        part: name of a submodule that both networks have ("encoder"); what the other has beside it is left out.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(source)
    file = path / "model.safetensors" if path.is_dir() else path
    if source in shipped.names():
        file = shipped.find(source).weights
    elif not path.exists() and (own := trained.find(source, {})) is not None:
        file = own.weights
    if not file.is_file():
        raise GauntletError(
            f"initial_weights '{source}' is neither a file, nor the folder of a trained model, nor a shipped model; "
            "train that model first or remove the field."
        )
    target = network
    try:
        state = load_file(file)
        if part is not None:
            target = network.get_submodule(part)
            prefix = f"{part}."
            state = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        target.load_state_dict(state)
    except (RuntimeError, AttributeError, SafetensorError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise GauntletError(f"the weights of '{file}' do not fit the recipe's model: {reason}") from None
