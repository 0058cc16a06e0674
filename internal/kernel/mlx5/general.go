package mlx5

import "encoding/binary"

// General objects of the firmware, and the commands for them. C: MLX5_CMD_OP_*_GENERAL_OBJECT, MLX5_OBJ_TYPE_*.
const (
	createGeneral = 0xa00
	modifyGeneral = 0xa01
	queryGeneral  = 0xa02

	generalHead   = 16   // bytes before the object, in a command and in its answer
	generalObject = 256  // bytes of a DEK or a login
	generalRange  = 0x63 // a bit of a command: the logarithm of how many objects
)

// generalCommand returns a command for an object of a kind. The object begins at generalHead.
func generalCommand(opcode, kind uint16, id uint32, size int) []byte {
	in := make([]byte, generalHead+size)
	binary.BigEndian.PutUint16(in, opcode)
	binary.BigEndian.PutUint16(in[6:], kind)
	binary.BigEndian.PutUint32(in[8:], id)
	return in
}

// makeGeneral makes a general object by a command, and returns the device's number of it.
func (c *context) makeGeneral(in []byte) (o obj, id uint32, err error) {
	out := make([]byte, generalHead)
	if o, err = c.obj(in, out); err != nil {
		return o, 0, answered(out, err)
	}
	if err = answered(out, nil); err != nil {
		err = also(err, o.end())
	}
	return o, binary.BigEndian.Uint32(out[8:]), err
}

// queryGeneral asks for a general object, and returns it.
func (o *obj) queryGeneral(kind uint16, id uint32) ([]byte, error) {
	out := make([]byte, generalHead+generalObject)
	err := answered(out, o.c.about(methodQuery, o.number, generalCommand(queryGeneral, kind, id, 0), out))
	return out[generalHead:], err
}

// hasGeneral reports whether the device has general objects of a kind.
func (c caps) hasGeneral(kind uint16) bool {
	const last = 0x43f // C: general_obj_types
	return c.has(last - int(kind))
}
