package ibv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
)

// DataInOrder returns what a program that polls memory may rely on when messages of opcode op
// arrive on the QP, which must be in RTS. 0 means nothing, or that the library does not know: it
// needs rdma-core v36, and an x86 processor.
//
// C: ibv_query_qp_data_in_order(3).
func (qp *QP) DataInOrder(op Opcode) (got InOrder, err error) {
	err = qp.do("query data in order", func() error {
		// Releases that do not know the flag return 0 with it.
		for _, flag := range []uint32{0, abi.IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS} {
			n, err := qp.dev.v.QueryQPDataInOrder(qp.handle, uint32(op), flag)
			if err != nil {
				got = 0
				return err
			}
			got |= InOrder(n)
		}
		return nil
	})
	return got, err
}
