package work

// Bind is a memory window and what to bind it to, or nothing if Length is 0.
type Bind struct {
	MW     uintptr // struct ibv_mw *
	MR     uintptr // struct ibv_mr *; 0 for nothing
	Type   uint32
	Key    uint32 // of the window until now
	NewKey uint32
	LKey   uint32 // of the MR
	Access uint32
	Addr   uint64
	Length uint64
}
