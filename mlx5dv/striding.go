package mlx5dv

import "encoding/binary"

// Strides has the content of a completion of a striding WQ: the strides that a message took, and their receive. A
// receive is used up when the completions of it have named all its strides.
type Strides struct {
	WQE     uint16 // index of the receive, free running
	First   uint16 // its first stride
	Used    int    // strides
	ByteLen int    // of the message; 0 for Filler
	Filler  bool   // no message: the next one did not fit into these strides
}

// StridesOf reads an entry of CQView, of a receive that succeeded.
func StridesOf(entry []byte) Strides {
	n := binary.BigEndian.Uint32(entry[44:])
	s := Strides{WQE: binary.BigEndian.Uint16(entry[2:]), First: binary.BigEndian.Uint16(entry[60:]),
		Used: int(n >> 16 & 0x3fff), Filler: n>>31 != 0}
	if !s.Filler {
		s.ByteLen = int(n & 0xffff)
	}
	return s
}
