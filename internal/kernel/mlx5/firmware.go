package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// Commands of the firmware are big-endian records, whose fields are counted in bits: see the programming reference
// manual, and mlx5_ifc.h of rdma-core.

// bitField is where a field begins, and how many bits it has, at most 64.
type bitField struct{ at, bits int }

// in returns the field of a record that begins at a bit of another.
func (f bitField) in(at int) bitField { return bitField{at + f.at, f.bits} }

func (f bitField) get(b []byte) (v uint64) {
	for i := f.at; i < f.at+f.bits; i++ {
		v = v<<1 | uint64(b[i/8]>>(7-i%8)&1)
	}
	return v
}

func (f bitField) put(b []byte, v uint64) {
	for i := f.at + f.bits - 1; i >= f.at; i-- {
		bit := byte(1) << (7 - i%8)
		if b[i/8] &^= bit; v&1 != 0 {
			b[i/8] |= bit
		}
		v >>= 1
	}
}

// Fields that commands and answers have in common. C: struct mlx5_ifc_general_obj_in_cmd_hdr_bits and its like.
var (
	cmdOpcode = bitField{0x00, 16}
)

const (
	headerSize = 16  // of commands and answers
	remoteIO   = 121 // the errno of a command that the firmware has refused: EREMOTEIO of Linux

	opQueryCaps = 0x100
)

// newCommand returns a command of n bytes.
func newCommand(op uint16, n int) []byte {
	in := make([]byte, n)
	cmdOpcode.put(in, uint64(op))
	return in
}

// firmware has send carry out a command whose answer has n bytes. The error is an errno, also for what the firmware
// refuses.
func firmware(in []byte, n int, send func(in, out []byte) error) ([]byte, error) {
	out := make([]byte, n)
	err := send(in, out)
	if err == syscall.Errno(remoteIO) {
		err = statusError(out[0])
	}
	return out, err
}

// statusError returns the errno that libmlx5 has for a status of the firmware.
func statusError(status byte) error {
	switch status {
	case 0:
		return nil
	case 0x02, 0x03, 0x05, 0x09, 0x0a, 0x10, 0x30, 0x40:
		return syscall.EINVAL
	case 0x06:
		return syscall.EBUSY
	case 0x08:
		return syscall.ENOMEM
	case 0x0f:
		return syscall.EAGAIN
	}
	return syscall.EIO
}

// capability is a field of a group of capabilities. C: enum mlx5_cap_type, union mlx5_ifc_hca_cap_union_bits.
type capability struct {
	group uint16
	bitField
}

// capability returns what the device says of it, 0 if it does not say.
func (c *context) capability(k capability) uint64 {
	const current, most = 1, 4096
	c.caps.mu.Lock()
	defer c.caps.mu.Unlock()
	b := c.caps.groups[k.group]
	if b == nil {
		in := newCommand(opQueryCaps, headerSize)
		binary.BigEndian.PutUint16(in[6:], k.group<<1|current)
		out, err := firmware(in, headerSize+most, c.general)
		if err != nil {
			return 0
		}
		if c.caps.groups == nil {
			c.caps.groups = make(map[uint16][]byte)
		}
		b = out[headerSize:]
		c.caps.groups[k.group] = b
	}
	return k.get(b)
}

// general sends a command that is about no object.
func (c *context) general(in, out []byte) error {
	const object, method, attr = driverNamespace, driverNamespace, driverNamespace
	return c.file.Method("devx_other", object, method, uverbs.In(attr, in), uverbs.Out(attr+1, out))
}
