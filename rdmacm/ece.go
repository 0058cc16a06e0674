package rdmacm

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// ECE holds enhanced connection establishment options, which ibv.QP.QueryECE returns and
// ibv.QP.SetECE takes.
type ECE = ibv.ECE

// SetLocalECE sets the options that Connect or Accept offers, for QPs of PD.CreateQP. It needs
// rdma-core v31.
//
// C: rdma_set_local_ece(3).
func (id *ID) SetLocalECE(e ECE) error {
	return id.do("set local ece", func() error {
		return id.lib.SetLocalECE(id.handle, &abi.ECE{VendorID: e.VendorID, Options: e.Options})
	})
}

// RemoteECE returns the peer's options, after EventConnectRequest or EventConnectResponse. The zero
// ECE means none. It needs rdma-core v31.
//
// C: rdma_get_remote_ece(3).
func (id *ID) RemoteECE() (ECE, error) {
	c := new(abi.ECE)
	err := id.do("get remote ece", func() error { return id.lib.GetRemoteECE(id.handle, c) })
	return ECE{VendorID: c.VendorID, Options: c.Options}, err
}
