// A subscriber in NestJS. Copy webhooks.controller.ts into your app.
//   npm install
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… npm start
import "reflect-metadata";
import { Body, Controller, Module, Post } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Calendar } from "./calendar.js";
import { WebhooksController } from "./webhooks.controller.js";

/** The rest of your app. */
@Controller("echo")
class EchoController {
  @Post()
  echo(@Body() body: unknown): unknown {
    return body;
  }
}

@Module({ controllers: [WebhooksController, EchoController], providers: [Calendar] })
class AppModule {}

const app = await NestFactory.create(AppModule);
app.enableShutdownHooks(["SIGINT", "SIGTERM"], { useProcessExit: true }); // calls onApplicationShutdown
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;
app.getHttpServer().keepAliveTimeout = 75_000; // longer than a load balancer keeps idle connections
await app.listen(PORT, HOST);
console.log(`listening on port ${PORT} of ${HOST}`);
