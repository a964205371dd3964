//! Stores of the instruction that a stopped process is about to execute.
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
    UsedMemory,
};
use libc::user_regs_struct;

/// Maximum length of an instruction in bytes.
pub(super) const INSTRUCTION_LEN_MAX: usize = 15;

/// Effects of an instruction that other processes can see.
#[derive(Clone)]
pub(super) enum Code {
    /// No effect.
    Private,
    /// A system call.
    Call,
    /// Writes to memory at these operands.
    Store(Vec<UsedMemory>),
}

impl Code {
    /// Decodes the instruction at the beginning of `bytes`, which is at address `ip`.
    pub(super) fn decode(bytes: &[u8], ip: u64) -> Self {
        let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        if instruction.mnemonic() == Mnemonic::Syscall {
            return Self::Call;
        }
        let stores = operands_written(&instruction);
        if stores.is_empty() { Self::Private } else { Self::Store(stores) }
    }
}

/// The operands in memory to which an instruction writes.
fn operands_written(instruction: &Instruction) -> Vec<UsedMemory> {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_memory();
    used.iter().filter(|memory| is_write(memory.access())).copied().collect()
}

fn is_write(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// Address of an operand. For a repeated string instruction, that of the next iteration.
pub(super) fn address_of(operand: &UsedMemory, registers: &user_regs_struct) -> Option<u64> {
    operand.virtual_address(0, |register, _, _| value_of(register, registers))
}

/// Value of a register, or the base address of a segment.
fn value_of(register: Register, registers: &user_regs_struct) -> Option<u64> {
    let whole = whole_value(register.full_register(), registers)?;
    Some(match register.size() {
        4 if register.is_gpr32() => whole & u64::from(u32::MAX),
        _ => whole,
    })
}

/// Value of a 64-bit register, or the base address of a segment; `None` for a register that is not known.
fn whole_value(register: Register, registers: &user_regs_struct) -> Option<u64> {
    Some(match register {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    })
}

/// Decodes instructions whose stores are known.
#[test]
fn stores_are_decoded() {
    // SAFETY: the registers are plain numbers, for which zeros are valid.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    (registers.rdi, registers.rax, registers.rcx, registers.fs_base) = (0x1000, 0x20, 3, 0x7000);
    let addresses = |bytes: &[u8]| match Code::decode(bytes, 0x40_0000) {
        Code::Store(operands) => operands.iter().map(|it| address_of(it, &registers)).collect(),
        _ => Vec::new(),
    };
    // mov [rdi + rax*8 + 16], rcx; rep movsb; lock cmpxchg [rdi], rcx; mov fs:[rax], rcx; vmovdqu [rdi+32], ymm0
    assert_eq!(addresses(&[0x48, 0x89, 0x4c, 0xc7, 0x10]), [Some(0x1110)]);
    assert_eq!(addresses(&[0xf3, 0xa4]), [Some(0x1000)]);
    assert_eq!(addresses(&[0xf0, 0x48, 0x0f, 0xb1, 0x0f]), [Some(0x1000)]);
    assert_eq!(addresses(&[0x64, 0x48, 0x89, 0x08]), [Some(0x7020)]);
    assert_eq!(addresses(&[0xc5, 0xfe, 0x7f, 0x47, 0x20]), [Some(0x1020)]);
    // mov rcx, [rdi]; cmp [rdi], rcx
    assert_eq!(addresses(&[0x48, 0x8b, 0x0f]), []);
    assert_eq!(addresses(&[0x48, 0x39, 0x0f]), []);
    assert!(matches!(Code::decode(&[0x0f, 0x05], 0), Code::Call));
}
