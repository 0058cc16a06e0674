package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// UARType is a kind of doorbell page.
type UARType uint32

const (
	UARBlueFlame    UARType = abi.MLX5DV_UAR_ALLOC_TYPE_BF // write combining, for BlueFlame
	UARNonCached    UARType = abi.MLX5DV_UAR_ALLOC_TYPE_NC // one for the Device, shared by all callers; libmlx5 v29
	UARNonCachedOwn UARType = abi.MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED
)

var uarTypeNames = map[UARType]string{
	UARBlueFlame: "BlueFlame", UARNonCached: "NonCached", UARNonCachedOwn: "NonCachedOwn",
}

// String returns the name, as in "NonCached".
func (t UARType) String() string {
	if n, ok := uarTypeNames[t]; ok {
		return n
	}
	return fmt.Sprintf("UARType(%d)", uint32(t))
}

// UAR is a page of doorbell registers, for objects of DevX. It belongs to its Device.
//
// C: struct mlx5dv_devx_uar.
type UAR struct {
	node
	typ  UARType
	attr abi.MLX5DVDevXUAR
}

// AllocUAR allocates a page of doorbell registers.
//
// C: mlx5dv_devx_alloc_uar(3).
func AllocUAR(dev *ibv.Device, t UARType) (*UAR, error) {
	c, u := begin(dev, "mlx5dv alloc uar"), &UAR{typ: t}
	return create(c, u, &u.node, "uar", func() (uintptr, error) {
		if _, ok := uarTypeNames[t]; !ok {
			return 0, &ibv.ArgError{Arg: "t", Got: t.String(), Want: "a type of UAR"}
		}
		attr, h, err := c.lib.DevXAllocUAR(c.handle, uint32(t))
		if err != nil {
			return 0, verbs.ExplainUnsupported(err, "a UAR of type "+t.String(), "a newer libmlx5 and kernel",
				dev.Name()+" without them; use UARBlueFlame")
		}
		u.attr = *attr
		return h, nil
	})
}

// PageID returns the number by which commands name the page.
func (u *UAR) PageID() uint32 { return u.attr.PageID }

// Page returns the address of the page, and Register that of its first doorbell register. They are
// device memory, not for sync/atomic, and valid until Close.
func (u *UAR) Page() uintptr     { return u.attr.BaseAddr }
func (u *UAR) Register() uintptr { return u.attr.RegAddr }

// MmapOffset returns where the page is in the device's file, for a process that maps it itself.
func (u *UAR) MmapOffset() int64 { return u.attr.MmapOff }

// Close gives the page back.
//
// C: mlx5dv_devx_free_uar(3).
func (u *UAR) Close() error { return u.destroy(u.lib.DevXFreeUAR) }

// QueryEQN returns the number of the event queue behind a completion vector, for commands that
// create a CQ.
//
// C: mlx5dv_devx_query_eqn(3).
func QueryEQN(dev *ibv.Device, vector int) (eqn uint32, err error) {
	c := begin(dev, "mlx5dv query eqn")
	err = c.do(func() (err error) {
		if n := verbs.CompVectors(dev); vector < 0 || vector >= n {
			return &ibv.ArgError{Arg: "vector", Got: fmt.Sprint(vector), Want: fmt.Sprintf("0 to %d", n-1)}
		}
		eqn, err = c.lib.DevXQueryEQN(c.handle, uint32(vector))
		return explainDevX(dev, err)
	})
	return eqn, err
}
