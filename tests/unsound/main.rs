//! Programs that would reach memory that is not theirs, and do not compile: one
//! file for each way. `TRYBUILD=overwrite` writes their errors anew.

#[test]
fn no_program_without_unsafe_reaches_memory_of_others() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/unsound/fail/*.rs");
    cases.pass("tests/unsound/pass/*.rs");
}
