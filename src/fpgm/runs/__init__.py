"""The run folder: every file of a run, with its schema, its reader and its writer. Needs no torch.

| file | content | owner |
|---|---|---|
| `config.yaml` | all settings, and which of them depart from the preset | `config.py` |
| `data.json` | hashes of the images that the run was begun with | `images.py` |
| `metrics.csv` | losses and validation Dice by step | `metrics.py` |
| `model/model.json` | what the weights are | `card.py` |
| `model/MODEL_CARD.md` | the same for people, with the results | `model_card.py` |
| `evaluation/evaluation.json` | of which weights and images the scores are | `evaluation.py` |
| `evaluation/<data set>.csv` | scores of each image | `scores.py` |
| `evaluation/<data set>.npz` | predicted masks | `evaluation.py` |

`folder.py` knows the names of the files. Weights, checkpoints and `prior.json` are tensors: `fpgm.model`,
`fpgm.training.checkpoint` and `fpgm.spectrum.priors` write them.
"""
