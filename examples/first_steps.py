"""From a trained model to a chip in one notebook; extras: snntorch, plot, notebook."""

import snntorch as snn
import torch

import nirbridge as nb

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), snn.Leaky(beta=0.9, init_hidden=True),
                            torch.nn.Linear(32, 10), snn.Leaky(beta=0.9, init_hidden=True))  # fmt: skip
x, y = (torch.rand(25, 8, 64) < 0.3).float(), torch.arange(8) % 10  # time steps, samples, inputs; a class per sample

net = nb.load(model, sample=x[0])
m = nb.map(net, "loihi2")
m.plot_floorplan()
m.plot_traffic()
q = nb.quantize(net, "loihi2", calibrate=(x, y))
run = nb.simulate(q, x)
nb.compare(nb.simulate(net, x), run).plot()
nb.emit(q, "lava").save("program")
m.save("model.map.json")
m.report("report.html")
print(net, m, q, run, m.where("3", 7), m.to_frame(), sep="\n")
