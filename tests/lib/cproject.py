#!/usr/bin/env python3
"""A C project to build with make: 60 modules, a header each, headers of groups, one of all; dependencies by gcc -MMD.

  cproject.py new DIR          makes it
  cproject.py set DIR GROUP N  gives the header g<GROUP>.h another number

Its program prints what the file `expect` has. make prints `CC name` and `LD program` for what it rebuilds:
g<N>.h concerns the modules whose number is N modulo 6, m<N>.h the modules N and N+1 and main.
"""
import os
import re
import sys

MODULES, GROUPS = 60, 6


def write(name, text):
    with open(name, "w") as f:
        f.write(text)


def expect(groups):
    """What the program prints: module i gives (x * (i + 1) + the number of its group) + what module i - 1 gives."""
    value = 0
    for i in range(MODULES):
        value = (value + 7 * (i + 1) + groups[i % GROUPS]) % 1000003
    return f"{value}\n"


def group_header(g, number):
    return f"#ifndef G{g}_H\n#define G{g}_H\n#define GROUP{g} {number}\n#endif\n"


def new(top):
    os.makedirs(top)
    os.chdir(top)
    os.makedirs("src")
    os.makedirs("include")
    write("include/common.h", "#ifndef COMMON_H\n#define COMMON_H\n#define MODULUS 1000003\n#endif\n")
    for g in range(GROUPS):
        write(f"include/g{g}.h", group_header(g, g + 10))
    for i in range(MODULES):
        write(f"include/m{i}.h", f"#ifndef M{i}_H\n#define M{i}_H\nint m{i}(int x);\n#endif\n")
        before = f'#include "m{i - 1}.h"\n' if i else ""
        call = f"m{i - 1}(x)" if i else "0"
        write(f"src/m{i}.c",
              f'#include "common.h"\n#include "g{i % GROUPS}.h"\n#include "m{i}.h"\n{before}\n'
              f"int m{i}(int x)\n{{\n\treturn ({call} + x * {i + 1} + GROUP{i % GROUPS}) % MODULUS;\n}}\n")
    includes = "".join(f'#include "m{i}.h"\n' for i in range(MODULES))
    write("src/main.c",
          f'#include <stdio.h>\n#include "common.h"\n{includes}\nint main(void)\n{{\n'
          f'\tprintf("%d\\n", m{MODULES - 1}(7) % MODULUS);\n\treturn 0;\n}}\n')
    write("Makefile", """\
SOURCES := $(wildcard src/*.c)
OBJECTS := $(SOURCES:src/%.c=obj/%.o)

program: $(OBJECTS)
	@echo LD $@
	@gcc -o $@ $^

obj/%.o: src/%.c | obj
	@echo CC $*
	@gcc -O1 -Wall -Werror -Iinclude -MMD -MP -c -o $@ $<

obj:
	@mkdir $@

clean:
	@rm -rf obj program

.PHONY: clean
-include $(OBJECTS:.o=.d)
""")
    write("expect", expect([g + 10 for g in range(GROUPS)]))


def change(top, group, number):
    os.chdir(top)
    write(f"include/g{group}.h", group_header(group, number))
    groups = [int(re.search(r"GROUP\d (\d+)", open(f"include/g{g}.h").read())[1]) for g in range(GROUPS)]
    write("expect", expect(groups))


if sys.argv[1] == "new":
    new(sys.argv[2])
elif sys.argv[1] == "set":
    change(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    sys.exit(__doc__)
