//! What may execute a virtual machine.

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// KVM if a probe shows that it works and the clock allows it, else emulation.
    Auto,
    /// Hardware virtualisation, or an error.
    Kvm,
    /// Emulation.
    Tcg,
}
