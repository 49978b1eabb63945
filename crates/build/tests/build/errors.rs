//! Misuse that types do not forbid is an error, and never a panic.

use ptxkit_build::{Error, Global, Module, Ptr, Register};

/// The error of a module with one kernel.
fn error_of(body: impl for<'k> FnOnce(ptxkit_build::Kernel<'k>)) -> Error {
    let mut module = Module::new("wrong");
    module.kernel("wrong", body);
    module.finish().unwrap_err()
}

#[test]
fn names_are_checked() {
    let error = error_of(|k| _ = k.param::<u32>("two words"));
    assert!(
        matches!(error, Error::Name { ref name } if name == "two words"),
        "{error}"
    );
    let error = error_of(|k| {
        k.param::<u32>("n");
        k.shared::<f32>("n", 4);
    });
    assert!(
        matches!(error, Error::Taken { ref name } if name == "n"),
        "{error}"
    );
    let error = error_of(|k| _ = k.value(1).named("%r1"));
    assert!(matches!(error, Error::Name { .. }), "{error}");
    let error = error_of(|k| _ = k.param::<u32>("wrong"));
    assert!(matches!(error, Error::Taken { .. }), "{error}");
    let mut module = Module::new("twice");
    module.kernel("twice", |_| {});
    module.kernel("twice", |_| {});
    let error = module.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`twice` is declared twice: choose another name"
    );
}

#[test]
fn an_array_has_elements() {
    let error = error_of(|k| _ = k.shared::<f32>("none", 0));
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    let mut module = Module::new("none");
    module.constant::<f32>("none", &[]);
    assert!(matches!(module.finish(), Err(Error::Empty { .. })));
}

#[test]
fn a_value_is_not_used_after_its_block() {
    let error = error_of(|k| {
        let n = k.param::<u32>("n");
        let mut inner = None;
        k.if_(n.gt(1), || inner = Some((n + 1).named("more")));
        k.param::<Ptr<u32, Global>>("to").store(inner.unwrap());
    });
    let said = error.to_string();
    assert!(matches!(error, Error::OutOfScope { .. }), "{said}");
    assert!(
        said.contains("`st.global.u32 [%to], %more;` in `wrong`"),
        "{said}"
    );
    // That of one branch is unknown in the other.
    let error = error_of(|k| {
        let n = k.param::<u32>("n");
        let inner = std::cell::Cell::new(n);
        k.if_else(n.gt(1), || inner.set(n + 1), || _ = inner.get() + 1);
    });
    assert!(matches!(error, Error::OutOfScope { .. }), "{error}");
}

#[test]
fn what_belongs_to_another_module_is_refused() {
    let mut other = Module::new("other");
    let table = other.constant("table", &[1_u32]);
    let square = other.function::<(f32,), f32>("square", ["x"], |_, (x,)| x * x);
    let error = error_of(|k| _ = k.variable(&table).load());
    assert!(
        matches!(error, Error::Foreign { ref name } if name == "table"),
        "{error}"
    );
    let error = error_of(|k| _ = k.call(&square, (1.0,)));
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

#[test]
fn templates_are_checked() {
    let why =
        |template: &'static str| error_of(|k| _ = k.raw(template).input("a", 1).output::<i32>("d"));
    for (template, said) in [
        (
            "neg.s32 {d}, {b};",
            "the template `neg.s32 {d}, {b};` has `{b}`, which is no input and no output",
        ),
        (
            "mov.b32 {d}, 1;",
            "the template `mov.b32 {d}, 1;` does not use `{a}`",
        ),
        (
            "mov.b32 {d}, {a;",
            "the template `mov.b32 {d}, {a;` has a lone brace: write `{{` or `}}` for braces of PTX",
        ),
        (
            "mov.b32 {d}, {a}; \u{1}0\u{1}",
            "the template `mov.b32 {d}, {a}; \u{1}0\u{1}` has control characters",
        ),
    ] {
        assert_eq!(why(template).to_string(), said);
    }
    // The checker has the rest.
    for template in [
        "negate.s32 {d}, {a};",
        "neg.s32 {d}, {a}",
        "neg.s64 {d}, {a};",
        "}} neg.s32 {d}, {a};",
    ] {
        let error = why(template);
        assert!(matches!(error, Error::Wrong(_)), "{template}: {error}");
    }
}

#[test]
fn what_no_target_has_at_once_is_an_error() {
    let both = error_of(|k| {
        k.raw("wgmma.fence.sync.aligned;").emit();
        k.raw("tcgen05.fence::before_thread_sync;").emit();
    });
    let Error::Wrong(found) = &both else {
        panic!("{both}");
    };
    assert_eq!(found.as_slice().len(), 1, "{both}");
    let mut module = Module::new("older");
    module.target("sm_70".parse().unwrap());
    module.kernel("older", |k| _ = k.value(1_u32).warp_sum(u32::MAX));
    let error = module.finish().unwrap_err();
    assert!(error.to_string().contains("redux"), "{error}");
}
