package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Lengths of a key message, its closing zero included.
const (
	keyLenLID = 59
	keyLenGID = 108
)

// Dest is one end's information about one of its queue pairs.
type Dest struct {
	LID      uint16
	OutReads uint16 // outstanding reads that it accepts as target
	QPN      uint32 // 24 bits
	PSN      uint32 // 24 bits
	RKey     uint32
	VAddr    uint64 // start of the memory that the peer may use
	GID      [16]byte
	SRQN     uint32
}

// appendKey appends the text form of d: hexadecimal fields of fixed width
// between colons, and a zero.
func (d Dest) appendKey(b []byte, gid bool) []byte {
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", d.LID, d.OutReads, d.QPN&0xffffff, d.PSN&0xffffff, d.RKey,
		d.VAddr)
	if gid {
		for _, x := range d.GID {
			b = fmt.Appendf(b, "%02x:", x)
		}
		return fmt.Appendf(b, "%08x:\x00", d.SRQN)
	}
	return fmt.Appendf(b, "%08x\x00", d.SRQN)
}

// parseKey reads the text form back. Stock peers print into a buffer that they
// do not clear, so what follows the zero means nothing.
func parseKey(b []byte, gid bool) (Dest, error) {
	var d Dest
	text := b
	if i := bytes.IndexByte(b, 0); i >= 0 {
		text = b[:i]
	}
	fields := bytes.Split(bytes.TrimSuffix(text, []byte{':'}), []byte{':'})
	want := 7
	if gid {
		want = 23
	}
	if len(fields) != want {
		return d, fmt.Errorf("%s: %d fields, want %d", quote(text), len(fields), want)
	}
	var err error
	num := func(i, bits int, name string) uint64 {
		if err != nil {
			return 0
		}
		v, e := strconv.ParseUint(string(fields[i]), 16, bits)
		if e != nil {
			err = fmt.Errorf("%s: field %d (%s) is not a hexadecimal number of %d bits", quote(text), i+1, name, bits)
		}
		return v
	}
	d.LID = uint16(num(0, 16, "lid"))
	d.OutReads = uint16(num(1, 16, "outstanding reads"))
	d.QPN = uint32(num(2, 24, "qp number"))
	d.PSN = uint32(num(3, 24, "psn"))
	d.RKey = uint32(num(4, 32, "rkey"))
	d.VAddr = num(5, 64, "address")
	n := 6
	if gid {
		for i := range d.GID {
			d.GID[i] = byte(num(n, 8, "gid"))
			n++
		}
	}
	d.SRQN = uint32(num(n, 32, "srq number"))
	return d, err
}

// Over rdma_cm a key message is perftest's C struct instead, big endian: destHead and destTail. From perftest 6.29 on
// there is one more address between them.
const (
	structLen     = 56
	structLenLong = 64
	longVersion   = 6.29
)

type destHead struct {
	LID, OutReads, QPN, PSN, RKey, _ uint32
	VAddr                            uint64
}

type destTail struct {
	GID     [16]byte
	SRQN, _ uint32 // GID index
}

func (d Dest) appendStruct(b []byte, long bool) []byte {
	b, _ = binary.Append(b, binary.BigEndian, destHead{LID: uint32(d.LID), OutReads: uint32(d.OutReads),
		QPN: d.QPN & 0xffffff, PSN: d.PSN & 0xffffff, RKey: d.RKey, VAddr: d.VAddr})
	if long {
		b = binary.BigEndian.AppendUint64(b, 0)
	}
	b, _ = binary.Append(b, binary.BigEndian, destTail{GID: d.GID, SRQN: d.SRQN})
	return b
}

// parseStruct reads the struct back. The fields after the GID have a meaning only if queue pairs share receives (XRC).
// Otherwise some stock peers leave it undefined.
func parseStruct(b []byte) (Dest, error) {
	var h destHead
	var t destTail
	binary.Decode(b, binary.BigEndian, &h) // it has the length
	binary.Decode(b[len(b)-binary.Size(t):], binary.BigEndian, &t)
	if h.QPN > 0xffffff {
		return Dest{}, fmt.Errorf("%s: qp number %#x has more than 24 bits", hexdump(b), h.QPN)
	}
	return Dest{uint16(h.LID), uint16(h.OutReads), h.QPN, h.PSN, h.RKey, h.VAddr, t.GID, t.SRQN}, nil
}

// quote shows what came from a stranger, shortened.
func quote(b []byte) string {
	const most = 48
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return strconv.Quote(string(b))
}

// hexdump shows binary data, shortened.
func hexdump(b []byte) string {
	const most = 32
	if len(b) > most {
		return hex.EncodeToString(b[:most]) + "…"
	}
	return hex.EncodeToString(b)
}
