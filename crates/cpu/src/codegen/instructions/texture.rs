//! Texture and surface instructions are calls of a helper. The modifiers are encoded in
//! an integer; operands and results are passed in a stack slot.

use crate::program::ByteOffset;
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, StackSlot, StackSlotData, StackSlotKind, Type, Value, types,
};

use crate::codegen::emitter::{EmitResult, Emitter, is_signed};
use crate::program::{Arg, Base, Instruction, Storage};
use crate::runtime::Helper;
use crate::runtime::texture::TextureAccess;
use crate::texture::{BoundaryMode, Geometry, Lod, Mode, Operation, Query, Reduction};
use ptx::names::{Modifier as M, Opcode as O, Type as P};

fn geometry(i: &Instruction) -> Option<Geometry> {
    let all = [
        (M::N1d, Geometry::D1),
        (M::N2d, Geometry::D2),
        (M::N3d, Geometry::D3),
        (M::A1d, Geometry::A1),
        (M::A2d, Geometry::A2),
        (M::Cube, Geometry::Cube),
        (M::Acube, Geometry::ACube),
    ];
    let found = all.into_iter().find(|&(word, _)| i.modifiers.has(word));
    found.map(|(_, geometry)| geometry)
}

fn query(i: &Instruction) -> Option<Query> {
    let all = [
        (M::Width, Query::Width),
        (M::Height, Query::Height),
        (M::Depth, Query::Depth),
        (M::NumMipmapLevels, Query::Levels),
        (M::ArraySize, Query::Layers),
        (M::NumSamples, Query::Samples),
        (M::NormalizedCoords, Query::Normalized),
        (M::FilterMode, Query::Filter),
        (M::AddrMode0, Query::Address0),
        (M::AddrMode1, Query::Address1),
        (M::AddrMode2, Query::Address2),
    ];
    let found = all.into_iter().find(|&(word, _)| i.modifiers.has(word));
    found.map(|(_, query)| query)
}

impl Emitter<'_, '_> {
    pub fn texture(&mut self, i: &Instruction) -> EmitResult<()> {
        match i.opcode {
            O::Tex | O::Tld4 => self.fetch(i),
            O::Suld => self.surface_load(i),
            O::Sust | O::Sured => self.surface_store(i),
            O::Istypep => self.is_type(i),
            _ => self.query(i),
        }
    }

    /// `tex`, `tld4`
    fn fetch(&mut self, i: &Instruction) -> EmitResult<()> {
        let Some(geometry) = geometry(i) else {
            return self.unsupported(i, "textures with several samples");
        };
        let is_gather = i.opcode == O::Tld4;
        let (result, coordinates) = (self.ty(i, 0)?, self.ty(i, 1)?);
        let mut mode = Mode {
            geometry,
            integers: coordinates == P::S32,
            halves: matches!(result, P::F16 | P::F16x2),
            count: if result == P::F16x2 { 2 } else { 4 },
            ..Mode::new(if is_gather {
                Operation::Gather
            } else {
                Operation::Fetch
            })
        };
        mode.channel = match i.modifiers.first_of(&[M::R, M::G, M::B, M::A]) {
            Some(M::G) => 1,
            Some(M::B) => 2,
            Some(M::A) => 3,
            _ => 0,
        };
        self.put_handle_and_coordinates(i, 1)?;
        let mut next = 2;
        match i.modifiers.first_of(&[M::Level, M::Grad]) {
            Some(M::Level) => {
                mode.lod = Lod::Level;
                let lod = self.operand(i, next, types::I32)?;
                self.put(offset_of!(TextureAccess, lod), lod);
                next += 1;
            }
            Some(_) => {
                mode.lod = Lod::Gradient;
                let at = offset_of!(TextureAccess, gradients);
                self.put_operand(i, next, at)?;
                self.put_operand(i, next + 1, at + 16)?;
                next += 2;
            }
            None => {}
        }
        let zero = self.int(types::I32, 0);
        let offset = offset_of!(TextureAccess, offset);
        for n in 0..3 {
            self.put(offset + 4 * n, zero);
        }
        if self.arg_count(i) > next {
            let is_offset = match self.arg(i, next)? {
                Arg::List(_) | Arg::Int(_) => true,
                // With float coordinates, the declared type of the register says whether
                // it is a depth or an offset. Its register class does not tell.
                Arg::Reg(_) => mode.integers,
                _ => false,
            };
            if !is_offset || self.arg_count(i) > next + 1 {
                return self.unsupported(i, "depth comparison, or an offset in a register");
            }
            self.put_operand(i, next, offset)?;
        }
        self.call_texture(mode);

        // `d|p`: every texel is resident.
        let to = self.arg(i, 0)?;
        let to = match to {
            Arg::List(list) => match *self.list(list) {
                [texels @ Arg::List(_), resident] => {
                    let yes = self.int(types::I8, 1);
                    self.write(i, resident, yes)?;
                    texels
                }
                _ => to,
            },
            _ => to,
        };
        let ty = if result == P::F16 {
            types::I16
        } else {
            types::I32
        };
        self.load_texture_results(i, to, ty)
    }

    /// `suld`
    fn surface_load(&mut self, i: &Instruction) -> EmitResult<()> {
        let mut mode = self.surface_mode(i, Operation::Load)?;
        let to = self.arg(i, 0)?;
        mode.count = self.parts(&to).len() as u8;
        let ty = self.native(i, 0)?;
        self.put_handle_and_coordinates(i, 1)?;
        self.call_texture(mode);
        self.load_texture_results(i, to, ty)
    }

    /// `sust`, `sured`
    fn surface_store(&mut self, i: &Instruction) -> EmitResult<()> {
        let by_texel = i.modifiers.has(M::P);
        let operation = match (i.opcode, by_texel) {
            (O::Sust, false) => Operation::Store,
            (O::Sust, true) => Operation::StoreTexel,
            (_, false) => Operation::Reduce,
            (_, true) => Operation::ReduceTexel,
        };
        let mut mode = self.surface_mode(i, operation)?;
        let from = self.arg(i, 1)?;
        let ty = self.native(i, 0)?;
        let parts = self.parts(&from).to_vec();
        mode.count = parts.len() as u8;
        self.put_handle_and_coordinates(i, 0)?;
        for (n, part) in parts.into_iter().enumerate().take(4) {
            let value = self.read(part, ty)?;
            let value = self.coerce(value, types::I64);
            self.put(offset_of!(TextureAccess, values) + 8 * n, value);
        }
        self.call_texture(mode);
        Ok(())
    }

    fn surface_mode(&mut self, i: &Instruction, operation: Operation) -> EmitResult<Mode> {
        let ty = self.ty(i, 0)?;
        let Some(geometry) = geometry(i) else {
            return self.unsupported(i, "unsupported surface geometry");
        };
        Ok(Mode {
            geometry,
            bytes: ty.bytes() as u8,
            signed: is_signed(ty),
            boundary: match i.modifiers.first_of(&[M::Clamp, M::Zero]) {
                Some(M::Clamp) => BoundaryMode::Clamp,
                Some(_) => BoundaryMode::Zero,
                None => BoundaryMode::Trap,
            },
            reduction: match i.modifiers.first_of(&[M::Min, M::Max, M::And, M::Or]) {
                Some(M::Min) => Reduction::Min,
                Some(M::Max) => Reduction::Max,
                Some(M::And) => Reduction::And,
                Some(_) => Reduction::Or,
                None => Reduction::Add,
            },
            ..Mode::new(operation)
        })
    }

    /// `txq`, `suq`
    fn query(&mut self, i: &Instruction) -> EmitResult<()> {
        let Some(query) = query(i) else {
            return self.unsupported(i, "unsupported query of a texture or surface");
        };
        let operation = match i.opcode {
            O::Txq => Operation::QueryTexture,
            _ => Operation::QuerySurface,
        };
        let handle = self.handle(i, 1)?;
        self.put(offset_of!(TextureAccess, handle), handle);
        let level = match self.arg_count(i) {
            3 => self.operand(i, 2, types::I32)?,
            _ => self.int(types::I32, 0),
        };
        self.put(offset_of!(TextureAccess, lod), level);
        self.call_texture(Mode {
            query,
            ..Mode::new(operation)
        });
        let to = self.arg(i, 0)?;
        self.load_texture_results(i, to, types::I32)
    }

    /// `istypep`
    fn is_type(&mut self, i: &Instruction) -> EmitResult<()> {
        let operation = match self.ty(i, 0)? {
            P::Texref => Operation::IsTexture,
            P::Surfref => Operation::IsSurface,
            _ => return self.unsupported(i, "samplers"),
        };
        let handle = self.handle(i, 1)?;
        self.put(offset_of!(TextureAccess, handle), handle);
        self.call_texture(Mode::new(operation));
        let to = self.arg(i, 0)?;
        self.load_texture_results(i, to, types::I8)
    }

    /// The elements of a vector operand, or the operand itself.
    fn parts<'p>(&self, arg: &'p Arg) -> &'p [Arg]
    where
        Self: 'p,
    {
        match arg {
            Arg::List(list) => {
                let program = self.program;
                program.list(*list)
            }
            single => std::slice::from_ref(single),
        }
    }

    /// Stores handle and coordinates of `[texture, {x, y}]`.
    fn put_handle_and_coordinates(&mut self, i: &Instruction, n: usize) -> EmitResult<()> {
        let Arg::List(list) = self.arg(i, n)? else {
            return self.unsupported(i, "unsupported operand");
        };
        let &[texture, coordinates] = self.list(list) else {
            return self.unsupported(i, "a sampler separate from its texture");
        };
        let handle = self.read(texture, types::I64)?;
        self.put(offset_of!(TextureAccess, handle), handle);
        let at = offset_of!(TextureAccess, coordinates);
        self.put_parts(coordinates, at)
    }

    /// A handle in a register, or the address of a texture or surface reference.
    fn handle(&mut self, i: &Instruction, n: usize) -> EmitResult<Value> {
        match self.arg(i, n)? {
            Arg::Address(Base::Reg(reg), ByteOffset::ZERO) => self.read(Arg::Reg(reg), types::I64),
            Arg::Address(Base::Storage(storage @ Storage::Global(_)), ByteOffset::ZERO) => {
                Ok(self.storage_address(storage, 0))
            }
            arg @ (Arg::Reg(_) | Arg::Symbol(Storage::Global(_), ByteOffset::ZERO)) => {
                self.read(arg, types::I64)
            }
            _ => self.unsupported(i, "unsupported operand"),
        }
    }

    fn put_operand(&mut self, i: &Instruction, n: usize, at: usize) -> EmitResult<()> {
        let arg = self.arg(i, n)?;
        self.put_parts(arg, at)
    }

    /// Stores up to four 32-bit values.
    fn put_parts(&mut self, arg: Arg, at: usize) -> EmitResult<()> {
        let parts = self.parts(&arg).to_vec();
        for (n, part) in parts.into_iter().enumerate().take(4) {
            let value = self.read(part, types::I32)?;
            self.put(at + 4 * n, value);
        }
        Ok(())
    }

    /// The stack slot for operands and results.
    fn texture_slot(&mut self) -> StackSlot {
        if let Some(slot) = self.texture_slot {
            return slot;
        }
        let size = size_of::<TextureAccess>() as u32;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.b.create_sized_stack_slot(data);
        self.texture_slot = Some(slot);
        slot
    }

    fn put(&mut self, at: usize, value: Value) {
        let slot = self.texture_slot();
        self.b.ins().stack_store(types::I64, value, slot, at as i32);
    }

    /// Loads the results, 8 bytes each.
    fn load_texture_results(&mut self, i: &Instruction, to: Arg, ty: Type) -> EmitResult<()> {
        let slot = self.texture_slot();
        for (n, to) in self.parts(&to).to_vec().into_iter().enumerate().take(4) {
            if to == Arg::Sink {
                continue;
            }
            let at = offset_of!(TextureAccess, values) + 8 * n;
            let value = self.b.ins().stack_load(types::I64, ty, slot, at as i32);
            self.write(i, to, value)?;
        }
        Ok(())
    }

    /// Calls the helper. A fault ends the function.
    fn call_texture(&mut self, mode: Mode) {
        let slot = self.texture_slot();
        let context = self.fixed.context;
        let thread = self.thread_index();
        let line = self.int(types::I32, self.line.into());
        let mode = self.int(types::I64, mode.number());
        let access = self.b.ins().stack_addr(types::I64, slot, 0);
        let failed = self.call(Helper::texture, &[context, thread, line, mode, access]);
        let failed = self.icmp_imm(IntCC::NotEqual, failed, 0);
        let ok = self.b.create_block();
        let fail = self.fail;
        self.b.ins().brif(failed, fail, &[], ok, &[]);
        self.enter(ok);
    }
}
