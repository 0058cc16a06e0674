package work

// MaskedAtomic has the operands of an atomic with masks: the first Size bytes of each.
type MaskedAtomic struct {
	Size        uint32 // 8, 16 or 32; 0 means 8
	SwapAdd     [4]uint64
	Mask        [4]uint64
	Compare     [4]uint64
	CompareMask [4]uint64
}

// Bytes returns the size of an operand.
func (m *MaskedAtomic) Bytes() uint32 {
	if m.Size == 0 {
		return 8
	}
	return m.Size
}
