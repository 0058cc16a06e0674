package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Bytes of the segments of a send WQE.
const (
	segControl  = 16
	segRemote   = 16
	segAtomic   = 16
	segDatagram = 48
	segUMR      = 48
	segMkey     = 64
	segKLM      = 64 // room for the list of an mkey
	segXRC      = 16
	segEthernet = 32
	inlineHead  = 4

	blockSize = 64
)

const (
	opsRemote = abi.IBV_QP_EX_WITH_RDMA_WRITE | abi.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | abi.IBV_QP_EX_WITH_RDMA_READ
	opsAtomic = abi.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | abi.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
	opsUMR    = abi.IBV_QP_EX_WITH_BIND_MW | abi.IBV_QP_EX_WITH_LOCAL_INV
	opsMkey   = abi.MLX5DV_QP_EX_WITH_MR_INTERLEAVED | abi.MLX5DV_QP_EX_WITH_MR_LIST |
		abi.MLX5DV_QP_EX_WITH_MKEY_CONFIGURE
)

// overhead returns the bytes of a send WQE that are no data. Without a choice of operations it has room for all.
func overhead(a *abi.QPInitAttrEx, o *own) (uint64, error) {
	ops := uint64(opsRemote | opsAtomic | opsUMR)
	if a.QPType == abi.IBV_QPT_UD || a.QPType == abi.IBV_QPT_RAW_PACKET {
		ops = 0
	}
	if a.CompMask&abi.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
		ops = a.SendOpsFlags
	}
	size := uint64(segControl)
	if ops&opsRemote != 0 {
		size = segControl + segRemote
	}
	if ops&opsAtomic != 0 {
		size = segControl + segRemote + segAtomic
	}
	if ops&opsUMR != 0 || o.ops&opsMkey != 0 {
		size = segControl + segUMR + segMkey + segKLM
	}
	switch a.QPType {
	case abi.IBV_QPT_RC, abi.IBV_QPT_UC:
		return size, nil
	case abi.IBV_QPT_UD, abi.IBV_QPT_DRIVER:
		return size + segDatagram, nil
	case abi.IBV_QPT_XRC_SEND, abi.IBV_QPT_XRC_RECV:
		return size + segXRC, nil
	case abi.IBV_QPT_RAW_PACKET:
		return size + segEthernet, nil
	}
	return 0, syscall.EOPNOTSUPP
}

func (s *sizes) bytes() int { return int(s.blocks*blockSize + s.wqes*s.stride) }

// qpSizes returns the sizes for what the caller wants, as libmlx5 computes them (rdma-core v50.0,
// providers/mlx5/verbs.c, mlx5_calc_wq_size).
func (i *contextInfo) qpSizes(a *abi.QPInitAttrEx, o *own) (s sizes, err error) {
	if s.fixed, err = overhead(a, o); err != nil {
		return s, err
	}
	s.granted = a.Cap
	if a.Cap.MaxSendWR > 0 {
		if a.CompMask&abi.IBV_QP_INIT_ATTR_MAX_TSO_HEADER != 0 {
			s.header = roundUp(uint64(a.MaxTSOHeader), sgeSize)
		}
		err = s.send(i, &a.Cap)
	}
	if err == nil && a.Cap.MaxRecvWR > i.MaxRecvWR {
		err = syscall.EINVAL
	}
	s.granted.MaxRecvWR, s.granted.MaxRecvSGE = 0, 0
	if err == nil && a.SRQ == 0 && a.Cap.MaxRecvWR > 0 {
		err = s.receive(i, &a.Cap)
	}
	return s, err
}

func (s *sizes) send(i *contextInfo, c *abi.QPCap) error {
	most := uint64(i.MaxSQDescSz)
	head := s.fixed + s.header
	if uint64(c.MaxInlineData) > most || head > most || uint64(c.MaxSendSGE) > (most-head)/sgeSize {
		return syscall.EINVAL
	}
	s.wqe = head + uint64(c.MaxSendSGE)*sgeSize
	if c.MaxInlineData > 0 {
		s.wqe = max(s.wqe, s.fixed+roundUp(inlineHead+uint64(c.MaxInlineData), sgeSize))
	}
	if s.wqe > most {
		return syscall.EINVAL
	}
	if s.wqe = roundUp(s.wqe, blockSize); s.wqe > most || uint64(c.MaxSendWR) > (1<<31-1)/most {
		return syscall.EINVAL
	}
	bytes := pow2(uint64(c.MaxSendWR) * s.wqe)
	if s.blocks = bytes / blockSize; s.blocks > uint64(i.MaxSendWqebb) {
		return syscall.EINVAL
	}
	s.granted.MaxSendWR = uint32(bytes / s.wqe)
	s.granted.MaxInlineData = uint32(s.wqe - s.fixed - inlineHead)
	return nil
}

func (s *sizes) receive(i *contextInfo, c *abi.QPCap) error {
	if uint64(c.MaxRecvSGE) > uint64(i.MaxRQDescSz)/sgeSize {
		return syscall.EINVAL
	}
	s.stride = pow2(s.head + uint64(max(c.MaxRecvSGE, 1))*sgeSize)
	if s.stride > uint64(i.MaxRQDescSz) {
		return syscall.EINVAL
	}
	s.wqes = max(pow2(uint64(c.MaxRecvWR))*s.stride, blockSize) / s.stride
	s.granted.MaxRecvWR, s.granted.MaxRecvSGE = uint32(s.wqes), uint32((s.stride-s.head)/sgeSize)
	return nil
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
