//! State spaces of declarations.

use crate::ast::Space;
use crate::token::bank;

/// The state space by its word in a declaration, without the dot.
pub fn space(word: &str) -> Option<Space> {
    Some(match word {
        "reg" => Space::Reg,
        "const" => Space::Const,
        "global" => Space::Global,
        "local" => Space::Local,
        "param" => Space::Param,
        "shared" => Space::Shared,
        "tex" => Space::Tex,
        _ => return bank(word).map(|_| Space::Const),
    })
}
