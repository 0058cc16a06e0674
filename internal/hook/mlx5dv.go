package hook

import (
	"context"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// What package mlx5dv needs of ibv.
var (
	// Enter keeps an object of ibv open until leave, and gives the address of its C
	// object: obj is an *ibv.Device, *ibv.PD, *ibv.CQ, *ibv.QP or *ibv.SRQ.
	Enter func(obj any, op string) (handle uintptr, leave func(), err error)

	// Direct tells why libmlx5 does not drive an *ibv.Device, nil if it does.
	Direct func(ctx any) error

	// CreateCQ is (*ibv.Device).CreateCQ with another function that makes the C
	// object: opt is an *ibv.CQOptions, the result an *ibv.CQ.
	CreateCQ func(ctx any, cqe int, opt any, create func(ctx uintptr, attr *abi.CQInitAttrEx) (uintptr, error)) (any, error)

	// ChoosePath is the data path that a CQ of these *ibv.CQOptions would have.
	ChoosePath func(ctx, opt any) (path any, err error)

	// Half is where the *ibv.QP's thread domain keeps the half of the BlueFlame
	// register that is next; nil without a thread domain.
	Half func(qp any) *uintptr

	// Events counts the events of an *ibv.CQ, WaitEvent sleeps until there are others
	// than seen.
	Events    func(cq any) uint32
	WaitEvent func(cq any, ctx context.Context, seen uint32) error
)
