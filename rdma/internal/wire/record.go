package wire

import (
	"encoding/binary"
	"fmt"
)

// The payload of a PACKED frame consists of records, one for each message. A record is RecordLen bytes, the message,
// and zeros up to a multiple of 8.

const (
	RecordLen = 8       // length with a flag, and immediate
	recordImm = 1 << 31 // flag: the message has an immediate
)

// RecordSize returns how many bytes of a frame a message of n bytes takes.
func RecordSize(n int) int { return RecordLen + (n+7)&^7 }

// PutRecord writes a record around a message of n bytes, which is at RecordLen in p and not written. The message has an
// immediate if flags has FlagImm. The padding is cleared, because the memory may have had other data.
func PutRecord(p []byte, n int, flags uint8, imm uint32) {
	word := uint32(n)
	if flags&FlagImm != 0 {
		word |= recordImm
	} else {
		imm = 0
	}
	binary.LittleEndian.PutUint32(p, word)
	binary.LittleEndian.PutUint32(p[4:], imm)
	clear(p[RecordLen+n : RecordSize(n)])
}

// ParseRecord reads what PutRecord has written, and returns the message's length and immediate.
func ParseRecord(p []byte) (n, imm uint32, hasImm bool) {
	word := binary.LittleEndian.Uint32(p)
	return word &^ recordImm, binary.LittleEndian.Uint32(p[4:]), word&recordImm != 0
}

// CheckRecords checks the payload of a PACKED frame: at least one record, each whole, with a message of at most most
// bytes. The error is an *Error.
func CheckRecords(p []byte, most int) error {
	for first := true; first || len(p) > 0; first = false {
		if len(p) < RecordLen {
			return &Error{"DATA", fmt.Sprintf("%d bytes of a record", len(p)), "8 or more"}
		}
		n, _, _ := ParseRecord(p)
		if uint64(n) > uint64(most) {
			return &Error{"DATA", fmt.Sprintf("a message of %d bytes", n), fmt.Sprintf("at most %d", most)}
		}
		size := RecordSize(int(n))
		if size > len(p) {
			return &Error{"DATA", fmt.Sprintf("a record of %d bytes", size),
				fmt.Sprintf("at most %d, the rest of the frame", len(p))}
		}
		p = p[size:]
	}
	return nil
}
