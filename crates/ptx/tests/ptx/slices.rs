//! Slices of generated modules: what a change elsewhere leaves alone, and that cutting
//! bears any input.

use std::fmt::Write;

use ptxkit_ptx::slice::{Slices, cut};
use ptxkit_ptx::{check, read};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// A kernel of a generated module.
#[derive(Clone)]
struct Kernel {
    name: String,
    /// Says what its body is.
    seed: u64,
}

/// A module as NVVM writes it: strings, functions and labels are numbered from the first
/// to the last, so that a new kernel moves the numbers of all that follow.
fn module(kernels: &[Kernel]) -> String {
    let mut globals = String::new();
    let mut text = String::new();
    let mut strings = 0;
    for (number, kernel) in kernels.iter().enumerate() {
        let mut random = Random(kernel.seed);
        let number = number + 2;
        let Kernel { name, seed } = kernel;
        write!(
            text,
            "\t// .globl\t{name}\n.visible .entry {name}(\n\t.param .u64 {name}_param_0\n)\n{{\n\
             \t.local .align 8 .b8 \t__local_depot{number}[8];\n\
             \t.reg .pred \t%p<3>;\n\t.reg .b32 \t%r<9>;\n\t.reg .b64 \t%rd<9>;\n\n\
             \t.loc\t{number} {} 3\n\tld.param.u64 \t%rd1, [{name}_param_0];\n\
             \tmov.u64 \t%rd2, __local_depot{number};\n$L__BB{number}_1: // {seed}\n",
            random.below(1000)
        )
        .unwrap();
        for _ in 0..200 + random.below(100) {
            let (a, b, c) = (random.below(8), random.below(8), random.below(9999));
            writeln!(text, "\tadd.s32 \t%r{a}, %r{b}, {c}; // %r{b}").unwrap();
        }
        match random.below(4) {
            0 => {
                let string = match strings {
                    0 => "$str".to_owned(),
                    n => format!("$str${n}"),
                };
                strings += 1;
                let first = random.below(256);
                writeln!(
                    globals,
                    ".global .align 1 .b8 {string}[3] = {{{first}, 10, 0}};"
                )
                .unwrap();
                write!(
                    text,
                    "\tmov.u64 \t%rd3, {string};\n\t{{ // callseq {number}, 0\n\
                     \t.param .b64 param0;\n\tst.param.b64 \t[param0+0], %rd3;\n\
                     \t.param .b64 param1;\n\tst.param.b64 \t[param1+0], %rd2;\n\
                     \t.param .b32 retval0;\n\
                     \tcall.uni (retval0),\n\tvprintf,\n\t(\n\tparam0,\n\tparam1\n\t);\n\t}}\n"
                )
                .unwrap();
            }
            1 => text += "\tcall.uni shared_by_some;\n",
            2 => text += "\tld.const.u32 %r1, [factors+4];\n",
            _ => {}
        }
        write!(
            text,
            "\tsetp.ne.s32 \t%p1, %r1, 0;\n\t@%p1 bra \t$L__BB{number}_1;\n\tret;\n\n}}\n"
        )
        .unwrap();
    }
    let mut source = format!(
        "//\n// Generated\n//\n\n.version 8.7\n.target sm_90\n.address_size 64\n\n\
         .extern .func  (.param .b32 func_retval0) vprintf\n(\n\t.param .b64 vprintf_param_0,\n\
         \t.param .b64 vprintf_param_1\n)\n;\n.visible .const .u32 factors[2] = {{1, 2}};\n\
         {globals}.func shared_by_some()\n{{\n$L__BB0_1:\n\tbra.uni $L__BB0_1;\n}}\n{text}"
    );
    for number in 0..kernels.len() {
        writeln!(source, "\t.file\t{} \"file.cu\"", number + 2).unwrap();
    }
    source
}

fn kernels(count: u64) -> Vec<Kernel> {
    let kernel = |seed| Kernel {
        name: format!("kernel_{seed}"),
        seed,
    };
    (0..count).map(kernel).collect()
}

fn assert_right(text: &str) {
    let reading = read(text);
    assert_eq!(reading.diagnostics, [], "{text}");
    assert_eq!(check(&reading.module, text), [], "{text}");
}

fn cut_of(source: &str) -> Slices {
    assert_right(source);
    cut(source, &read(source).module)
}

/// The slices of all kernels, in the order of the kernels.
fn texts(kernels: &[Kernel]) -> Vec<String> {
    let source = module(kernels);
    let slices = cut_of(&source);
    assert_eq!(slices.whole(), None);
    let names: Vec<_> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(slices.kernel_names().collect::<Vec<_>>(), names);
    let texts = names.iter().map(|name| {
        let slice = &slices.slices()[slices.kernel(name).unwrap()];
        assert_eq!(slice.kernels(), [*name]);
        let text = slice.text(&source);
        assert_right(&text);
        text.into_owned()
    });
    texts.collect()
}

#[test]
fn a_new_kernel_changes_no_other_slice() {
    let before = kernels(16);
    let old = texts(&before);
    let mut random = Random(7);
    for round in 0..6 {
        let place = random.below(before.len());
        let seed = 100 + round;
        let name = format!("new_{round}");
        let mut after = before.clone();
        after.insert(place, Kernel { name, seed });
        let mut new = texts(&after);
        new.remove(place);
        assert!(new == old, "a kernel at {place}");
        after = before.clone();
        after.remove(place);
        let mut kept = old.clone();
        kept.remove(place);
        assert!(texts(&after) == kept, "without the kernel at {place}");
    }
}

#[test]
fn an_edited_kernel_changes_its_slice_alone() {
    let before = kernels(16);
    let old = texts(&before);
    let mut random = Random(8);
    for round in 0..6 {
        let mut after = before.clone();
        let edited = random.below(before.len());
        after[edited].seed = 200 + round;
        for (index, (old, new)) in old.iter().zip(&texts(&after)).enumerate() {
            assert_eq!(old == new, index != edited, "{index}, edited {edited}");
        }
    }
}

/// Each line of a slice is the line of the module that it names, but for white space,
/// comments and numbers.
#[test]
fn lines_are_those_of_the_module() {
    let source = module(&kernels(12));
    let slices = cut_of(&source);
    let lines: Vec<&str> = source.lines().collect();
    let slice = &slices.slices()[slices.kernel("kernel_7").unwrap()];
    let text = slice.text(&source);
    for (index, line) in text.lines().enumerate() {
        let original = slice.original_line(&source, index as u32 + 1).unwrap();
        let original = lines[original as usize - 1];
        let first = |line: &str| {
            let word = line.split_whitespace().next().unwrap_or_default();
            word.trim_start_matches("$L__BB")
                .trim_end_matches(|c: char| !c.is_alphabetic())
                .to_owned()
        };
        assert_eq!(first(line), first(original), "{line}: {original}");
    }
}

/// Whatever is wrong with a module, cutting it does not panic, and what has no errors is
/// cut into slices without errors.
#[test]
fn damaged_modules_are_cut_too() {
    let source = module(&kernels(12));
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        ";",
        ":",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        ",",
        "$str",
        "$L__BB3_1",
        ".entry ",
        ".func ",
        ".visible ",
        ".extern ",
        ".global .u32 x;",
        ".const .u32 a, b;",
        ".alias a, b;",
        ".file 1 \"",
        ".section .debug_str {",
        ".loc 1 2 3",
        "inlined_at 4",
        "function_name ",
        "kernel_3",
        "shared_by_some",
        "factors",
        "= {",
        "\u{e9}",
        "\0",
    ];
    let mut random = Random(9);
    let mut cut_modules = 0;
    for round in 0..100 {
        let mut damaged = source.clone();
        for _ in 0..=random.below(8) {
            let mut start = random.below(damaged.len());
            while !damaged.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + random.below(12)).min(damaged.len());
            while !damaged.is_char_boundary(end) {
                end += 1;
            }
            // Every other round edits numbers alone, which leaves many modules right.
            if round % 2 == 0 {
                damaged.replace_range(start..end, pieces[random.below(pieces.len())]);
            } else if damaged[start..].starts_with(|c: char| c.is_ascii_digit()) {
                damaged.replace_range(start..=start, "7");
            }
        }
        let reading = read(&damaged);
        let right = reading.diagnostics.is_empty() && check(&reading.module, &damaged).is_empty();
        let slices = cut(&damaged, &reading.module);
        cut_modules += usize::from(slices.whole().is_none());
        for slice in slices.slices() {
            let text = slice.text(&damaged);
            let lines = text.lines().count() as u32;
            for line in [0, lines / 2, lines + 1, u32::MAX] {
                slice.original_line(&damaged, line);
            }
            // Another source than the one that was cut.
            slice.text(&source[..source.len() / 2]);
            slice.original_line("", lines);
            if right {
                assert_right(&text);
            }
        }
    }
    assert!(cut_modules > 20, "{cut_modules}");
}
