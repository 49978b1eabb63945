//! Video instructions (PTX ISA, "Video Instructions") are calls of a helper. The
//! modifiers are encoded in an integer.

use cranelift_codegen::ir::{Value, types};

use crate::codegen::emitter::{EmitResult, Emitter, is_signed};
use crate::math::video::{VideoCompare, VideoMode, VideoOp, VideoPart, VideoSecondaryOp};
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O};

/// The operation, and the number of SIMD lanes; 1 if it is scalar.
fn operation(opcode: O) -> Option<(VideoOp, u8)> {
    Some(match opcode {
        O::Vadd => (VideoOp::Add, 1),
        O::Vsub => (VideoOp::Sub, 1),
        O::Vabsdiff => (VideoOp::AbsDiff, 1),
        O::Vmin => (VideoOp::Min, 1),
        O::Vmax => (VideoOp::Max, 1),
        O::Vset => (VideoOp::Set, 1),
        O::Vshl => (VideoOp::Shl, 1),
        O::Vshr => (VideoOp::Shr, 1),
        O::Vmad => (VideoOp::Mad, 1),
        O::Vadd2 => (VideoOp::Add, 2),
        O::Vsub2 => (VideoOp::Sub, 2),
        O::Vavrg2 => (VideoOp::Average, 2),
        O::Vabsdiff2 => (VideoOp::AbsDiff, 2),
        O::Vmin2 => (VideoOp::Min, 2),
        O::Vmax2 => (VideoOp::Max, 2),
        O::Vset2 => (VideoOp::Set, 2),
        O::Vadd4 => (VideoOp::Add, 4),
        O::Vsub4 => (VideoOp::Sub, 4),
        O::Vavrg4 => (VideoOp::Average, 4),
        O::Vabsdiff4 => (VideoOp::AbsDiff, 4),
        O::Vmin4 => (VideoOp::Min, 4),
        O::Vmax4 => (VideoOp::Max, 4),
        O::Vset4 => (VideoOp::Set, 4),
        _ => return None,
    })
}

/// The digits of a selector such as `.b7654`, from the last to the first.
fn digits(selector: M) -> impl Iterator<Item = u8> {
    selector
        .text()
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .map(|d| d - b'0')
}

fn part(selector: M) -> Option<VideoPart> {
    Some(match selector.text() {
        "" => VideoPart::Word,
        "b0" => VideoPart::B0,
        "b1" => VideoPart::B1,
        "b2" => VideoPart::B2,
        "b3" => VideoPart::B3,
        "h0" => VideoPart::H0,
        "h1" => VideoPart::H1,
        _ => return None,
    })
}

impl Emitter<'_, '_> {
    pub fn video(&mut self, i: &Instruction) -> EmitResult<()> {
        let Some((op, lanes)) = operation(i.opcode) else {
            return self.unsupported(i, "unsupported operation");
        };
        // `vset` names no result type.
        let first = usize::from(op != VideoOp::Set);
        let (d_at, (a, a_selector, a_negated)) = (self.arg(i, 0)?, self.video_operand(i, 1)?);
        let (b, b_selector, b_negated) = self.video_operand(i, 2)?;
        let has_c = self.arg_count(i) > 3;
        let (c, _, c_negated) = if has_c {
            self.video_operand(i, 3)?
        } else {
            (a, M::NONE, false)
        };
        let (d, d_selector) = match d_at {
            Arg::Select { reg, selector, .. } => (Arg::Reg(reg), selector),
            other => (other, M::NONE),
        };
        if [a_selector, b_selector, d_selector].contains(&M::UNKNOWN) {
            return self.unsupported(i, "unsupported byte selector");
        }

        let secondary = match i.modifiers.first_of(&[M::Add, M::Min, M::Max]) {
            Some(M::Add) => VideoSecondaryOp::Add,
            Some(M::Min) => VideoSecondaryOp::Min,
            Some(M::Max) => VideoSecondaryOp::Max,
            _ if lanes == 1 && op != VideoOp::Mad && has_c => VideoSecondaryOp::Merge,
            _ => VideoSecondaryOp::Nothing,
        };
        let compare = match i
            .modifiers
            .first_of(&[M::Eq, M::Ne, M::Lt, M::Le, M::Gt, M::Ge])
        {
            Some(M::Ne) => VideoCompare::Ne,
            Some(M::Lt) => VideoCompare::Lt,
            Some(M::Le) => VideoCompare::Le,
            Some(M::Gt) => VideoCompare::Gt,
            Some(M::Ge) => VideoCompare::Ge,
            _ => VideoCompare::Eq,
        };
        let mut mode = VideoMode {
            op,
            compare,
            secondary,
            // `vset` takes its third operand as it takes the first.
            d_signed: is_signed(self.ty(i, 0)?),
            a_signed: is_signed(self.ty(i, first)?),
            b_signed: is_signed(self.ty(i, first + 1)?),
            sat: i.modifiers.has(M::Sat),
            wrap: i.modifiers.has(M::Wrap),
            negate_product: a_negated != b_negated,
            negate_c: c_negated,
            plus_one: i.modifiers.has(M::Po),
            scale: match i.modifiers.first_of(&[M::Shr7, M::Shr15]) {
                Some(M::Shr7) => 7,
                Some(_) => 15,
                None => 0,
            },
            a_part: VideoPart::Word,
            b_part: VideoPart::Word,
            d_part: VideoPart::Word,
            lanes,
            a_lanes: [0, 1, 2, 3],
            b_lanes: if lanes == 4 {
                [4, 5, 6, 7]
            } else {
                [2, 3, 0, 0]
            },
            mask: (1 << lanes) - 1,
        };
        if lanes == 1 {
            let parts = (part(a_selector), part(b_selector), part(d_selector));
            let (Some(a), Some(b), Some(d)) = parts else {
                return self.unsupported(i, "unsupported part of an operand");
            };
            (mode.a_part, mode.b_part, mode.d_part) = (a, b, d);
        } else {
            for (lane, digit) in digits(a_selector).enumerate().take(4) {
                mode.a_lanes[lane] = digit;
            }
            for (lane, digit) in digits(b_selector).enumerate().take(4) {
                mode.b_lanes[lane] = digit;
            }
            if d_selector != M::NONE {
                mode.mask = digits(d_selector).fold(0, |mask, digit| mask | 1 << (digit & 3));
            }
        }
        let number = self.int(types::I64, mode.number());
        let helper = if lanes == 1 {
            Helper::video
        } else {
            Helper::video_simd
        };
        let value = self.call(helper, &[number, a, b, c]);
        self.write(i, d, value)
    }

    /// The register of an operand, the selector of its part, and whether it is negated.
    fn video_operand(&mut self, i: &Instruction, n: usize) -> EmitResult<(Value, M, bool)> {
        Ok(match self.arg(i, n)? {
            Arg::Select {
                reg,
                negated,
                selector,
            } => (self.read(Arg::Reg(reg), types::I32)?, selector, negated),
            other => (self.read(other, types::I32)?, M::NONE, false),
        })
    }
}
