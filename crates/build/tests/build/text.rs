//! The text of built modules.

use ptx::printer;

use crate::programs;

#[test]
fn programs_are_printed_as_snapshots() {
    for module in [
        programs::block_sums(),
        programs::collatz(),
        programs::parts(),
    ] {
        let ptx = module.finish().unwrap();
        assert_eq!(ptx.text(), printer::format(ptx.text()).unwrap());
        insta::assert_snapshot!(ptx.name().to_owned(), ptx.text());
    }
}
