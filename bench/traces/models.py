"""Parameter tensors and work of the models, in the order of the forward pass."""

import dataclasses


@dataclasses.dataclass
class Layer:
    """A tensor of parameters, and the multiply-adds of one sample that use it."""

    name: str
    parameters: int
    work: float = 0.0


def resnet50() -> list[Layer]:
    """He et al., Deep Residual Learning, 2015, Table 1; 161 tensors, 25,557,032 parameters, as in
    torchvision."""
    layers: list[Layer] = []

    def convolution(name: str, inputs: int, outputs: int, kernel: int, size: int) -> None:
        weights = inputs * outputs * kernel * kernel
        layers.append(Layer(name, weights, float(weights * size * size)))
        layers.append(Layer(name + ".norm.weight", outputs))
        layers.append(Layer(name + ".norm.bias", outputs))

    convolution("stem", 3, 64, 7, 112)
    channels, size = 64, 56
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            name = f"stage{stage + 1}.{block}"
            before = size
            if stage > 0 and block == 0:
                size //= 2
            convolution(name + ".1", channels, width, 1, before)
            convolution(name + ".2", width, width, 3, size)
            convolution(name + ".3", width, 4 * width, 1, size)
            if block == 0:
                convolution(name + ".shortcut", channels, 4 * width, 1, size)
            channels = 4 * width
    layers.append(Layer("fc.weight", 2048 * 1000, 2048.0 * 1000))
    layers.append(Layer("fc.bias", 1000))
    return layers


def vgg19() -> list[Layer]:
    """Simonyan and Zisserman, Very Deep Convolutional Networks, 2014, Table 1, column E;
    143,667,240 parameters."""
    layers: list[Layer] = []
    channels, size = 3, 224
    for block, (width, count) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))):
        for number in range(count):
            weights = channels * width * 9
            name = f"conv{block + 1}_{number + 1}"
            layers.append(Layer(name + ".weight", weights, float(weights * size * size)))
            layers.append(Layer(name + ".bias", width))
            channels = width
        size //= 2
    for name, inputs, outputs in (("fc6", 25088, 4096), ("fc7", 4096, 4096), ("fc8", 4096, 1000)):
        layers.append(Layer(name + ".weight", inputs * outputs, float(inputs * outputs)))
        layers.append(Layer(name + ".bias", outputs))
    return layers


@dataclasses.dataclass
class Transformer:
    layers: int
    hidden: int
    tokens: int  # a sample has so many
    vocabulary: int  # or the classes of an image model
    source: str
    feed_forward: int = 0  # 0: four times hidden
    gated: bool = False  # three matrices of the feed-forward network instead of two

    def __post_init__(self) -> None:
        self.feed_forward = self.feed_forward or 4 * self.hidden

    def tensors(self) -> list[tuple[str, int]]:
        """Names and parameters of one layer's tensors."""
        h, f = self.hidden, self.feed_forward
        found = [("qkv.weight", 3 * h * h), ("proj.weight", h * h)]
        found += [("up.weight", (2 if self.gated else 1) * h * f), ("down.weight", f * h)]
        found += [("norm1", h), ("norm2", h)]
        if not self.gated:
            found += [("qkv.bias", 3 * h), ("proj.bias", h), ("up.bias", f), ("down.bias", h)]
            found += [("norm1.bias", h), ("norm2.bias", h)]
        return found

    def layer_parameters(self) -> int:
        return sum(parameters for _, parameters in self.tensors())

    def layer_work(self) -> float:
        """Multiply-adds of a layer for one sample: matrices, and the two products of attention."""
        matrices = sum(p for name, p in self.tensors() if name.endswith(".weight"))
        return float(matrices) * self.tokens + 2.0 * self.tokens * self.tokens * self.hidden


VIT = "Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, Table 1; 224 x 224 pixels"
TRANSFORMERS = {
    "vit-base": Transformer(12, 768, 197, 1000, VIT),
    "vit-large": Transformer(24, 1024, 197, 1000, VIT),
    "gpt2": Transformer(
        48,
        1600,
        1024,
        50257,
        "Radford et al., Language Models are Unsupervised Multitask Learners, 2019, Table 2 (1.5B)",
    ),
    "7b": Transformer(
        32,
        4096,
        2048,
        32000,
        "Touvron et al., LLaMA, 2023, Table 2 (7B), feed-forward of 11,008",
        11008,
        True,
    ),
    "13b": Transformer(
        40,
        5120,
        2048,
        32000,
        "Touvron et al., LLaMA, 2023, Table 2 (13B), feed-forward of 13,824",
        13824,
        True,
    ),
}
