package mlx5dv

import "github.com/pureverbs/pureverbs/ibv"

const (
	needRDMACore = "libibverbs of rdma-core or MLNX_OFED 5"
	haveOFED4    = "MLNX_OFED 4"
)

// createExp is CreateQP by the experimental verbs of MLNX_OFED 4, whose libmlx5 has no mlx5dv_create_qp. The CQs are
// those of CreateQP.
func createExp(op string, pd *ibv.PD, send, recv *ibv.CQ, opt *QPOptions) (*ibv.QP, error) {
	unsupported := func(feature, instead string) error {
		return opError(op, pd.Device().Name(), &ibv.UnsupportedError{Feature: feature, Need: instead + needRDMACore,
			Have: haveOFED4})
	}
	d := opt.DC
	if d == nil {
		d = &DCOptions{}
	}
	switch {
	case opt.Flags != 0:
		return nil, unsupported("a QP with "+opt.Flags.String(), "")
	case opt.DriverOps != 0:
		return nil, unsupported("a QP with "+opt.DriverOps.String(), "")
	case d.LogStreams != 0:
		return nil, unsupported("streams of a DCI", "a DCI for each stream, or ")
	case opt.MaxAtomic != 0:
		if err := haveAtomics(pd.Device(), opt.MaxAtomic); err != nil {
			return nil, opError(op, pd.Device().Name(), err)
		}
	case opt.Type != ibv.DCI && opt.Type != ibv.DCT:
		return pd.CreateQP(send, recv, &opt.QPOptions)
	}
	return verbs.CreateExp(pd, send, recv, &opt.QPOptions, d.AccessKey, uint32(opt.MaxAtomic))
}
