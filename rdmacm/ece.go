package rdmacm

import "github.com/pureverbs/pureverbs/internal/abi"

// ECE are enhanced connection establishment options: what two devices of one
// vendor agree on.
//
// C: struct ibv_ece.
type ECE struct {
	VendorID uint32
	Options  uint32
}

// SetLocalECE sets what Connect or Accept offers, for QPs of PD.CreateQP. It needs
// rdma-core v31.
//
// C: rdma_set_local_ece(3).
func (id *ID) SetLocalECE(e ECE) error {
	return id.do("set local ece", func() error {
		return id.lib.SetLocalECE(id.handle, &abi.ECE{VendorID: e.VendorID, Options: e.Options})
	})
}

// RemoteECE is what the peer offers, after EventConnectRequest or EventConnectResponse;
// vendor 0 is nothing. It needs rdma-core v31.
//
// C: rdma_get_remote_ece(3).
func (id *ID) RemoteECE() (ECE, error) {
	c := new(abi.ECE)
	err := id.do("get remote ece", func() error { return id.lib.GetRemoteECE(id.handle, c) })
	return ECE{VendorID: c.VendorID, Options: c.Options}, err
}
