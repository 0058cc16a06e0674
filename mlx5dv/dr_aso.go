package mlx5dv

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// DRASO is the use of an object of the device's "advanced steering operations": a first-hit bit, a meter, or the
// tracking of connections.
//
// Experimental: no device has run this. See docs/stability.md.
type DRASO struct {
	Offset uint32 // in the bulk of the object
	Flags  DRASOFlags
	RegC   uint8 // the register that has the result
}

// DRASOFlags select the operation on the object. The meaning of a bit depends on the type of the object.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: enum mlx5dv_dr_action_aso_*_flags.
type DRASOFlags uint32

// The flags: of a first-hit bit, the first color of a meter, and the direction of a connection.
const (
	DRASOFirstHitSet    DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_FIRST_HIT_SET
	DRASOMeterRed       DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_RED
	DRASOMeterYellow    DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_YELLOW
	DRASOMeterGreen     DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_GREEN
	DRASOMeterUndefined DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_UNDEFINED
	DRASOInitiator      DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_CT_DIRECTION_INITIATOR
	DRASOResponder      DRASOFlags = abi.MLX5DV_DR_ACTION_FLAGS_ASO_CT_DIRECTION_RESPONDER
)

// ASO uses an object that was made by DevX.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_aso(3), of libmlx5 v33.
func (d *DRDomain) ASO(o *DevXObject, use DRASO) (*DRAction, error) {
	return d.onDevX("ASO", o, func(c *call, h uintptr) (uintptr, error) {
		return c.lib.DRActionASO(d.handle, h, use.Offset, uint32(use.Flags), use.RegC)
	})
}

// ModifyASO changes an action of ASO, for rules that are made later.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_modify_aso(3), of libmlx5 v33.
func (a *DRAction) ModifyASO(use DRASO) error {
	return a.do("modify dr aso", func() error {
		return explainDR(a.lib.DRActionModifyASO(a.handle, use.Offset, uint32(use.Flags), use.RegC), a.dev, "ASO")
	})
}

// LinkASO lets a domain use an ASO object of another: that of a TX domain in an RX one, for example.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_aso_other_domain_link(3), of libmlx5 v38.
func (d *DRDomain) LinkASO(o *DevXObject, peer *DRDomain, use DRASO) error {
	c := d.begin("link dr aso")
	return c.do(func() error {
		if peer == nil || peer == d {
			return &ibv.ArgError{Arg: "peer", Got: "nil, or the same", Want: "another DRDomain"}
		}
		h, err := c.devx(o)
		if err = errors.Join(err, c.use(&peer.node, "peer")); err != nil {
			return err
		}
		err = c.lib.DRASOOtherDomainLink(h, peer.handle, d.handle, uint32(use.Flags), use.RegC)
		return explainDR(err, d.dev, "ASO of another domain")
	})
}

// UnlinkASO undoes LinkASO.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_aso_other_domain_unlink(3), of libmlx5 v38.
func (d *DRDomain) UnlinkASO(o *DevXObject) error {
	c := d.begin("unlink dr aso")
	return c.do(func() error {
		h, err := c.devx(o)
		if err != nil {
			return err
		}
		return explainDR(c.lib.DRASOOtherDomainUnlink(h, d.handle), d.dev, "ASO of another domain")
	})
}
