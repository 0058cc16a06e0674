package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// PacketPacing is an entry of the device's table of rates, whose index commands of DevX take.
// ibv.QP.ModifyRateLimit is for QPs of verbs.
//
// It belongs to its Device.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_pp.
type PacketPacing struct {
	node
	index uint16
}

// pacingContext is the size of the device's struct set_pp_rate_limit_context.
const pacingContext = 0x30

// AllocPacketPacing makes an entry; context is in the device's own format, up to 48 bytes that begin
// with the rate in kb/s as a big-endian uint32. The device has to be opened with DevX, and the
// program needs CAP_NET_RAW.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_pp_alloc(3), of libmlx5 v29.
func AllocPacketPacing(dev *ibv.Device, context []byte, f PacketPacingFlags) (*PacketPacing, error) {
	c, p := begin(dev, "mlx5dv alloc packet pacing"), new(PacketPacing)
	return create(c, p, &p.node, "packet pacing", func() (h uintptr, err error) {
		switch {
		case len(context) == 0:
			return 0, &ibv.ArgError{Arg: "context", Got: "0 bytes", Want: "a rate, in the device's format"}
		case len(context) > pacingContext:
			return 0, &ibv.LimitError{What: "context bytes", Asked: uint64(len(context)), Limit: pacingContext,
				Where: "the device's format"}
		case f&^PacingDedicated != 0:
			return 0, &ibv.ArgError{Arg: "flags", Got: f.String(), Want: fmt.Sprint("of ", PacingDedicated)}
		}
		h, p.index, err = c.lib.PPAlloc(c.handle, context, uint32(f))
		return h, verbs.ExplainUnsupported(err, "packet pacing", "a device with it, opened with DevX",
			dev.Name()+" without")
	})
}

// Index returns the number of the entry.
func (p *PacketPacing) Index() uint16 { return p.index }

// Close gives the entry back.
//
// C: mlx5dv_pp_free(3), which does not report whether that failed.
func (p *PacketPacing) Close() error { return p.destroy(p.lib.PPFree) }
