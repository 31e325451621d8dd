"""A GAN whose generator steps first: its discriminator is given the points that were made before that step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.randn(40, 2, generator=torch.Generator().manual_seed(1)) * 0.5 + 1
loader = DataLoader(TensorDataset(points), batch_size=8, shuffle=True)
generator = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 2))
discriminator = nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1), nn.Sigmoid())
adversarial = nn.BCELoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=5e-3, betas=(0.5, 0.9))
optimizer_d = torch.optim.SGD(discriminator.parameters(), lr=0.1, momentum=0.9)
slower = torch.optim.lr_scheduler.StepLR(optimizer_d, step_size=2, gamma=0.5)

for epoch in range(4):
    for (real,) in loader:
        valid, fake = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        optimizer_g.zero_grad()
        made = generator(torch.randn(len(real), 3))
        g_loss = adversarial(discriminator(made), valid)
        g_loss.backward()
        optimizer_g.step()
        optimizer_d.zero_grad()
        d_loss = (adversarial(discriminator(real), valid) + adversarial(discriminator(made.detach()), fake)) / 2
        d_loss.backward()
        torch.nn.utils.clip_grad_norm_(discriminator.parameters(), 0.2)
        optimizer_d.step()
    slower.step()
    print(f"epoch {epoch}: {g_loss.item():.12g} {d_loss.item():.12g}")
