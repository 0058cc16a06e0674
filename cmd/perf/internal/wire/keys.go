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

// Over rdma_cm a key message is perftest's C struct instead, big endian:
//
//	 0  u32 lid, outstanding reads, qp number, psn, rkey; 4 bytes of nothing
//	24  u64 address
//	32  gid
//	48  u32 srq number, gid index
//
// From perftest 6.29 on there is one more address after the first.
const (
	structLen     = 56
	structLenLong = 64
	longVersion   = 6.29
)

func (d Dest) appendStruct(b []byte, long bool) []byte {
	be := binary.BigEndian
	for _, v := range []uint32{uint32(d.LID), uint32(d.OutReads), d.QPN & 0xffffff, d.PSN & 0xffffff, d.RKey, 0} {
		b = be.AppendUint32(b, v)
	}
	b = be.AppendUint64(b, d.VAddr)
	if long {
		b = be.AppendUint64(b, 0)
	}
	b = append(b, d.GID[:]...)
	b = be.AppendUint32(b, d.SRQN)
	return be.AppendUint32(b, 0)
}

// parseStruct reads the struct back. The fields after the GID have a meaning only if queue pairs share receives (XRC).
// Otherwise some stock peers leave it undefined.
func parseStruct(b []byte) (Dest, error) {
	be := binary.BigEndian
	d := Dest{
		LID: uint16(be.Uint32(b)), OutReads: uint16(be.Uint32(b[4:])), QPN: be.Uint32(b[8:]),
		PSN: be.Uint32(b[12:]), RKey: be.Uint32(b[16:]), VAddr: be.Uint64(b[24:]),
	}
	if d.QPN > 0xffffff {
		return Dest{}, fmt.Errorf("%s: qp number %#x has more than 24 bits", hexdump(b), d.QPN)
	}
	copy(d.GID[:], b[len(b)-24:])
	d.SRQN = be.Uint32(b[len(b)-8:])
	return d, nil
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
