package tsc

const counterName = "TSC"

// counter reads the time stamp counter.
//
//go:noescape
func counter() int64

// cpuid executes CPUID.
//
//go:noescape
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// usable trusts the counter if the processor calls it invariant, or if there
// is a hypervisor: those emulate one counter for all processors of a guest but
// rarely set the flag.
func usable() (bool, string) {
	if _, _, ecx, _ := cpuid(1, 0); ecx&(1<<31) != 0 {
		return true, ""
	}
	if top, _, _, _ := cpuid(0x80000000, 0); top >= 0x80000007 {
		if _, _, _, edx := cpuid(0x80000007, 0); edx&(1<<8) != 0 {
			return true, ""
		}
	}
	return false, "the processor does not promise a constant counter rate"
}
