package cm

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// GRHSize is the size of the header in front of each datagram that is received: a
// GRH, or with RoCE v2 over IPv4 an IPv4 header in its last 20 bytes.
const GRHSize = 40

// FitsMTU checks that a datagram fits in one packet.
func FitsMTU(dev *ibv.Device, port uint8, size int) error {
	p, err := dev.QueryPort(port)
	if err != nil {
		return err
	}
	if mtu := p.ActiveMTU.Bytes(); size > mtu {
		return fmt.Errorf("-S %d: a datagram fits in one packet, and the MTU of the port is %d", size, mtu)
	}
	return nil
}
