package bus

import (
	"path/filepath"
)

// workerInfo names the worker inside the node of a data directory.
type workerInfo struct {
	Name string `json:"name"`
}

// RecordWorker records the name of the worker that runs inside the node, so that the next node on the data directory
// knows that this worker has ended.
func (s *Server) RecordWorker(name string) error {
	return writeSealed(filepath.Join(s.cfg.DataDir, workFile), workerInfo{name})
}

// LastWorker returns the worker of the last node on the data directory that had one, "" if unknown. Its
// process has ended: only one node runs on a data directory.
func (s *Server) LastWorker() string {
	var info workerInfo
	if readSealed(filepath.Join(s.cfg.DataDir, workFile), &info) != nil {
		return ""
	}
	return info.Name
}
