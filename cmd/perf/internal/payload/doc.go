// Package payload says which bytes a message has, and where in memory it stands. It moves nothing.
//
// Memory that the processor cannot reach, as a GPU's, gets another Fill and Check here; Walker stays.
package payload
