package ibv

func b2u8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
