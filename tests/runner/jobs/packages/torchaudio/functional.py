from torch import BEHAVIOUR, Wave


def resample(wave: Wave, before: int, after: int) -> Wave:
    step = wave.step * before / after * BEHAVIOUR.get("pitch", 1)
    return Wave(step, wave.samples * after // before, BEHAVIOUR.get("height", 1))
