import preact from '@preact/preset-vite'
import { defineConfig } from 'vite'

// The page is served below /ui/. Its addresses are absolute, so that index.html works for every path below it.
export default defineConfig({
  base: '/ui/',
  plugins: [preact()],
  build: { target: 'es2022', cssTarget: ['chrome125', 'firefox128', 'safari18'], assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  server: { proxy: { '/api': 'http://127.0.0.1:8787' } },
})
