package ibv

import "fmt"

// OpMemcpy has the device copy local memory: package mlx5dv makes it. C: mlx5dv_wr_memcpy.
const OpMemcpy Opcode = 17

// checkCopy reports what is wrong with a copy of local memory.
//
//kind:check OpMemcpy
func checkCopy(qp *QP, wr *SendWR) error {
	switch {
	case wr.Flags&Inline != 0:
		return noInlineFlag(wr)
	case wr.Inline != nil:
		return &ArgError{Arg: "Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
	case len(wr.SGEs) != 2:
		return &ArgError{Arg: "SGEs", Got: fmt.Sprint(len(wr.SGEs)), Want: "two: to where, and from where"}
	case wr.SGEs[0].Length != wr.SGEs[1].Length || wr.SGEs[0].Length == 0:
		return &ArgError{Arg: "SGEs", Got: fmt.Sprintf("%d bytes to copy to %d", wr.SGEs[1].Length, wr.SGEs[0].Length),
			Want: "two of the same length, and not 0"}
	case qp.make.mlx5.MostCopy > 0 && uint64(wr.SGEs[0].Length) > qp.make.mlx5.MostCopy:
		return &LimitError{What: "bytes to copy", Asked: uint64(wr.SGEs[0].Length), Limit: qp.make.mlx5.MostCopy,
			Where: qp.dev.Name() + " (mlx5dv.DeviceAttr.MaxWRMemcpy)"}
	}
	return nil
}

// addCopy builds a copy on the direct data path.
//
//kind:add OpMemcpy
func addCopy(qp *QP, wr *SendWR) (ok bool, err error) {
	n := qp.make.mlx5.Notes
	return qp.sq.direct.SQ.Memcpy(request(wr), n.lkey, n.iova), nil
}
