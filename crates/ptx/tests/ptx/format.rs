//! The canonical form of PTX.

use ptxkit_ptx::printer::{format, print};
use ptxkit_ptx::read;

const UNTIDY: &str = r#"// by hand

# 3 "x.cu"
.version 8.5   // the newest
.target sm_90,debug
.address_size 64
.file 1 "a  b.cu"   .pragma   "nounroll"  ;
// weights
.global .align 4 .f32 w[2][2]={{1.0,0f40000000},{-0.5,1e-3}}; .global .u32 mask = 0xFF00 & ~(1 << 4);



.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 values) ;
/* the
   kernel */
.visible .entry kernel(.param .u64 .ptr .global .align 16 out, // where to
 .param .u32 n) .maxntid 16,16
.minnctapersm 2
{ // begin
 .reg .b32 %r<4>; .reg .pred %p;


 setp.lt.s32 %p, %r1 , 0x10; /* a */ // b
 @!%p bra DONE ; { .reg .b64 %x; mov.b64 {%r1,_}, %x; ld.global.b32 %r1,[%x+-8]; } // block
DONE: ret;
 // end
}
"#;

const TIDY: &str = r#"// by hand

# 3 "x.cu"
.version 8.5 // the newest
.target sm_90, debug
.address_size 64
.file 1 "a  b.cu"
.pragma "nounroll";
// weights
.global .align 4 .f32 w[2][2] = {{1.0, 0f40000000}, {-0.5, 1e-3}};
.global .u32 mask = 0xFF00&~(1<<4);

.extern .func (.param .b32 status) vprintf(
	.param .b64 format,
	.param .b64 values
);

/* the
   kernel */
.visible .entry kernel(
	.param .u64 .ptr .global .align 16 out, // where to
	.param .u32 n
)
.maxntid 16, 16
.minnctapersm 2
{ // begin
	.reg .b32 %r<4>;
	.reg .pred %p;

	setp.lt.s32 %p, %r1, 0x10; /* a */ // b
	@!%p bra DONE;
	{
		.reg .b64 %x;
		mov.b64 {%r1, _}, %x;
		ld.global.b32 %r1, [%x+-8];
	} // block
DONE:
	ret;
	// end
}
"#;

#[test]
fn comments_blank_lines_and_numbers_are_kept() {
    assert_eq!(format(UNTIDY).unwrap(), TIDY);
}

#[test]
fn formatting_twice_changes_nothing() {
    assert_eq!(format(TIDY).unwrap(), TIDY);
}

#[test]
fn the_form_means_what_the_text_meant() {
    let (before, after) = (read(UNTIDY), read(TIDY));
    assert_eq!(print(&before.module), print(&after.module));
}

#[test]
fn comments_inside_statements_come_behind_them() {
    let source = ".version 8.0\n.target sm_80\n.entry k() {\n\
                  add.u32 a, // first\n b, /* x\n y */ c;\n ret; }";
    let tidy = ".version 8.0\n.target sm_80\n\n.entry k()\n{\n\
                \tadd.u32 a, b, c; // first\n\t/* x\n y */\n\tret;\n}\n";
    assert_eq!(format(source).unwrap(), tidy);
    assert_eq!(format(tidy).unwrap(), tidy);
}

#[test]
fn a_remainder_does_not_become_a_name() {
    let source = ".version 8.0\n.target sm_80\n.global .u8 t[2] = {32% 37, 5  %(2)};\n";
    let tidy = ".version 8.0\n.target sm_80\n.global .u8 t[2] = {32% 37, 5%(2)};\n";
    assert_eq!(format(source).as_deref(), Ok(tidy));
    assert_eq!(format(tidy).as_deref(), Ok(tidy));
}

#[test]
fn wide_lists_are_broken() {
    let numbers: Vec<String> = (0..100).map(|n| format!("{n}")).collect();
    let source = format!(
        ".version 8.0\n.target sm_80\n.global .u8 t[100] = {{{}}};",
        numbers.join(",")
    );
    let tidy = self::format(&source).unwrap();
    assert!(tidy.lines().all(|line| line.len() <= 100), "{tidy}");
    assert_eq!(self::format(&tidy).unwrap(), tidy);
    assert_eq!(print(&read(&source).module), print(&read(&tidy).module));
}

#[test]
fn what_cannot_be_read_is_not_printed() {
    let found = format(".version 8.0\n.target sm_80\n.entry k() { add.u32 a b; }").unwrap_err();
    assert_eq!(found.len(), 1);
}
