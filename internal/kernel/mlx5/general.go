package mlx5

import "encoding/binary"

// General objects. C: MLX5_CMD_OP_CREATE_GENERAL_OBJECT and its like, struct mlx5_ifc_general_obj_in_cmd_hdr_bits.
const (
	createGeneral = 0xa00
	modifyGeneral = 0xa01
	generalKind   = 6 // bytes
	generalID     = 8
	generalRange  = 0x63 // a bit: the logarithm of how many
)

// makes reports whether the device has general objects of a kind.
func (c caps) makes(kind int) bool {
	const kinds = 0x400 // C: general_obj_types, of 64 bits
	return c.has(kinds + 63 - kind)
}

// generalObject makes an object of the device and returns its number. size is of the command.
func (c *context) generalObject(kind uint16, size int, set func(in []byte)) (o obj, number uint32, err error) {
	in, out := make([]byte, size), make([]byte, 16)
	binary.BigEndian.PutUint16(in, createGeneral)
	binary.BigEndian.PutUint16(in[generalKind:], kind)
	set(in)
	if o, err = c.obj(in, out); err != nil {
		return o, 0, answered(out, err)
	}
	return o, binary.BigEndian.Uint32(out[generalID:]), nil
}
