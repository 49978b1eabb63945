//! Control flow: closures are the bodies of branches and loops.

use crate::code::Code;
use crate::types::Integer;
use crate::value::{Operand, Value, Var};

impl<'k> Code<'k> {
    /// `inside` where the predicate is true.
    pub fn if_(self, predicate: Value<'k, bool>, inside: impl FnOnce()) {
        let number = self.state.fresh_label("if");
        let end = self.state.label_name("endif", number);
        self.branch_unless(predicate, &end);
        self.state.block(inside);
        self.state.label(&end);
    }

    /// `inside` where the predicate is true, else `otherwise`.
    pub fn if_else(
        self,
        predicate: Value<'k, bool>,
        inside: impl FnOnce(),
        otherwise: impl FnOnce(),
    ) {
        let number = self.state.fresh_label("if");
        let (other, end) = (
            self.state.label_name("else", number),
            self.state.label_name("endif", number),
        );
        self.branch_unless(predicate, &other);
        self.state.block(inside);
        self.branch(&end);
        self.state.label(&other);
        self.state.block(otherwise);
        self.state.label(&end);
    }

    /// `inside`, again and again, while what `condition` computes is true.
    pub fn while_(self, condition: impl FnOnce() -> Value<'k, bool>, inside: impl FnOnce()) {
        let number = self.state.fresh_label("while");
        let (start, end) = (
            self.state.label_name("while", number),
            self.state.label_name("endwhile", number),
        );
        self.state.label(&start);
        self.state.block(|| {
            let predicate = condition();
            self.branch_unless(predicate, &end);
            inside();
        });
        self.branch(&start);
        self.state.label(&end);
    }

    /// `inside` for each number from `start` up to and without `end`. The counter is a variable,
    /// which `inside` may also set. A Rust `for` around code unrolls it instead.
    pub fn for_range<T>(
        self,
        start: impl Operand<'k, T>,
        end: impl Operand<'k, T>,
        inside: impl FnOnce(Var<'k, T>),
    ) where
        T: Integer + Operand<'k, T>,
        u8: Into<T>,
    {
        self.for_step(start, end, 1_u8.into(), inside);
    }

    /// As [`for_range`](Code::for_range), in steps of `step`. The last counter plus `step` must
    /// not wrap. An end or step that is a variable is read each time.
    pub fn for_step<T: Integer>(
        self,
        start: impl Operand<'k, T>,
        end: impl Operand<'k, T>,
        step: impl Operand<'k, T>,
        inside: impl FnOnce(Var<'k, T>),
    ) {
        let number = self.state.fresh_label("for");
        let (head, done) = (
            self.state.label_name("for", number),
            self.state.label_name("endfor", number),
        );
        let counter = self.var(start);
        let (end, step) = (end.text(), step.text());
        self.state.label(&head);
        self.state.block(|| {
            let reached: Value<'k, bool> =
                self.result(&format!("setp.ge.{}", T::NAME), &[&counter.text(), &end]);
            self.state
                .line(format_args!("@{} bra {done};", reached.reg));
            inside(counter);
            counter.assign(&format!("add.{}", T::NAME), &[&counter.reg(), &step]);
        });
        self.branch(&head);
        self.state.label(&done);
    }

    fn branch(self, label: &str) {
        self.state.line(format_args!("bra {label};"));
    }

    fn branch_unless(self, predicate: Value<'k, bool>, label: &str) {
        self.state
            .line(format_args!("@!{} bra {label};", predicate.reg));
    }
}
