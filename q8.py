import sys; sys.path.insert(0,'/work/plan')
from oracle import whole
H=".version 9.0\n.target sm_90\n.address_size 64\n"
for sp in("local","shared","global","const","param"):
  for n in (2147483647,2147483648,4294967295,4294967296,4294967312,1<<40):
    if sp=="param": t=H+f".entry k(.param .b8 x[{n}])\n{{\nret;\n}}\n"
    elif sp in("global","const"): t=H+f".{sp} .b8 x[{n}];\n.entry k()\n{{\nret;\n}}\n"
    else: t=H+f".entry k()\n{{\n.{sp} .b8 x[{n}];\nret;\n}}\n"
    rc,f,o=whole(t); print(sp,n,rc,f[:1] or o[:100].strip())
